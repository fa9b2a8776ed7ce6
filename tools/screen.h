/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * screen.h - a terminal whose text is replaced in place, and waiting for the time, a key or a
 * signal.
 *
 * While the screen is open the terminal shows its other page and echoes no key.  It is given back
 * as it was on every way out: screen_close(), exit(), and a signal that ends or stops the program.
 * SIGKILL alone leaves it as it is.
 */
#ifndef EBB_SCREEN_H
#define EBB_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Standard output is a terminal that knows escape codes. */
bool screen_is_there(void);

void screen_open(void);
void screen_close(void);

/* Standard input is a terminal, too, so that a key can be typed. */
bool screen_has_keys(void);

/* Columns of the terminal as it is now. */
unsigned int screen_width(void);

/* Shows the lines of text, of which those that do not fit are cut, and the rest not shown. */
void screen_show(const char *text);

/* All of text to standard output at once, so that a reader sees no half of it. */
void write_whole(const char *text, size_t len);

enum wake {
	WAKE_TIME,      /* now_ns() is past the moment */
	WAKE_REDRAW,    /* another size, or the program was stopped and goes on */
	WAKE_QUIT,      /* the key q, or there is no terminal any more */
};

/* Waits for a moment of now_ns(); a signal that ends the program does so here. */
enum wake wait_until(uint64_t when_ns);

#endif
