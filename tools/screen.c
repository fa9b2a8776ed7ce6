// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Signals.  Those of tool.c set a flag and end the waiting.  The others that end a program give the
 * terminal back in their handler, by calls that are safe there, and then do what they always do.
 * SIGTSTP, SIGCONT and SIGWINCH set flags here: the loop that waits does the rest.
 */
#define _GNU_SOURCE
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tool.h"

/* Other page, no cursor, lines end at the margin; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static const int deadly[] = {
	SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2,
	SIGXCPU, SIGXFSZ, SIGSYS, SIGTRAP,
};
static const int flagged[] = { SIGTSTP, SIGCONT, SIGWINCH };

static volatile sig_atomic_t shown, stop_asked, continued, resized;
static bool keys;                /* standard input is a terminal, too */
static struct termios before;

bool screen_is_there(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* In signal handlers, too. */
void screen_close(void)
{
	int err = errno;

	if (!shown)
		return;
	shown = 0;
	if (write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1) < 0)
		errno = err;    /* a terminal that is gone needs nothing */
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	errno = err;
}

static void enter(void)
{
	if (keys) {
		struct termios now = before;

		now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		now.c_cc[VMIN] = 1;
		now.c_cc[VTIME] = 0;
		/* Before the page: of a job in the background this one stops the program. */
		tcsetattr(STDIN_FILENO, TCSANOW, &now);
	}
	shown = 1;
	write_whole(ENTER, sizeof(ENTER) - 1);
}

static void on_deadly(int sig)
{
	screen_close();
	raise(sig);     /* SA_RESETHAND: the default, as this handler returns */
}

static void on_flagged(int sig)
{
	if (sig == SIGTSTP)
		stop_asked = 1;
	else if (sig == SIGCONT)
		continued = 1;
	else
		resized = 1;
}

/* As ^Z does to a program that knows of none; it returns when the program goes on. */
static void stop_now(void)
{
	stop_asked = 0;
	screen_close();
	catch_signal(SIGTSTP, SIG_DFL, 0);
	raise(SIGTSTP);
	catch_signal(SIGTSTP, on_flagged, 0);
	continued = 1;
}

void screen_open(void)
{
	static bool registered;

	keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	if (!registered && atexit(screen_close))
		no_memory();
	registered = true;
	before_messages(screen_close);
	for (size_t i = 0; i < ARRAY_LEN(deadly); i++)
		catch_signal(deadly[i], on_deadly, (int)SA_RESETHAND);
	for (size_t i = 0; i < ARRAY_LEN(flagged); i++)
		catch_signal(flagged[i], on_flagged, 0);
	enter();
}

static struct winsize size(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col || !w.ws_row)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	return w;
}

bool screen_has_keys(void)
{
	return keys;
}

unsigned int screen_width(void)
{
	return size().ws_col;
}

void write_whole(const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		stop_if_interrupted();
		if (n < 0 && errno == EAGAIN) {
			struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };

			/* Whoever shares the terminal made it so. */
			poll(&output, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail("standard output: cannot write all of it: %s", strerror(errno));
		text += n;
		len -= (size_t)n;
	}
}

void screen_show(const char *text)
{
	struct winsize w = size();
	size_t room = strlen(text) + (size_t)w.ws_row * 8 + 16, len = 0;
	char *frame = xalloc(room, 1);
	unsigned int row = 0;

	/* Erased before it is written: behind a full row the cursor is on its last character. */
	len += (size_t)sprintf(frame, "\033[H");
	for (; *text && row < w.ws_row; row++) {
		size_t line = strcspn(text, "\n");

		len += (size_t)sprintf(frame + len, "%s\033[K%.*s", row ? "\r\n" : "",
				       (int)text_cut(text, line, w.ws_col), text);
		text += line + (text[line] == '\n');
	}
	if (row < w.ws_row)
		len += (size_t)sprintf(frame + len, "%s\033[J", row ? "\r\n" : "");
	write_whole(frame, len);
	free(frame);
}

/* Keys that wait; false: there is no terminal any more. */
static bool read_keys(bool *quit)
{
	char c[64];
	ssize_t n = read(STDIN_FILENO, c, sizeof(c));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	*quit = memchr(c, 'q', (size_t)n) || memchr(c, 'Q', (size_t)n);
	return true;
}

/*
 * All signals are let in by ppoll() alone, so that none comes between the look at its flag and the
 * wait.
 */
static int wait_for(struct pollfd *input, const struct timespec *left)
{
	sigset_t all, old;
	int n = -1;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	errno = EINTR;
	if (!interrupted() && !stop_asked && !continued && !resized)
		n = ppoll(input, input ? 1 : 0, left, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return n;
}

enum wake wait_until(uint64_t when_ns)
{
	for (;;) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
		uint64_t now = now_ns(), left = when_ns > now ? when_ns - now : 0;
		struct timespec ts = {
			.tv_sec = (time_t)(left / 1000000000u),
			.tv_nsec = (long)(left % 1000000000u),
		};
		bool quit = false;
		int n = wait_for(shown && keys ? &input : NULL, &ts);

		if (n < 0 && errno != EINTR)
			fail("cannot wait: %s", strerror(errno));
		stop_if_interrupted();
		if (stop_asked)
			stop_now();
		if (continued) {
			continued = 0;
			resized = 1;
			enter();
		}
		if (resized) {
			resized = 0;
			return WAKE_REDRAW;
		}
		if (n > 0 && (!read_keys(&quit) || quit))
			return WAKE_QUIT;
		if (n == 0)
			return WAKE_TIME;
	}
}
