/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel_names.h - the kernel's names that core/ uses, for homes outside of the kernel.
 *
 * A home's "host_impl.h" includes it first and defines the rest of those that core/host.h lists:
 * READ_ONCE() and WRITE_ONCE(), the locks, prefetchw(), WARN_ONCE(), CPUs, nodes and the clock.
 */
#ifndef EBB_CORE_KERNEL_NAMES_H
#define EBB_CORE_KERNEL_NAMES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#ifndef PAGE_SHIFT
#define PAGE_SHIFT 12
#endif
_Static_assert(PAGE_SHIFT >= 12 && PAGE_SHIFT <= 16, "pages of 4 to 64 KiB");

#undef PAGE_SIZE        /* some C libraries have one in <limits.h> */
#define PAGE_SIZE ((size_t)1 << PAGE_SHIFT)
#define offset_in_page(p) ((size_t)(p) & (PAGE_SIZE - 1))

#define SMP_CACHE_BYTES 64
#define ____cacheline_aligned __attribute__((aligned(SMP_CACHE_BYTES)))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

/* For builds with -ftrivial-auto-var-init. */
#if __has_attribute(__uninitialized__)
#define __uninitialized __attribute__((__uninitialized__))
#else
#define __uninitialized
#endif

#define NUMA_NO_NODE (~0u)

static inline unsigned int kernel_names_bits(u64 v)
{
#if defined(__x86_64__) && !defined(__POPCNT__)
	/* The compiler's own is a call of a function there, which looks bytes up in a table. */
	v -= v >> 1 & 0x5555555555555555;
	v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
	return (unsigned int)(((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
#else
	return (unsigned int)__builtin_popcountll(v);
#endif
}
#define hweight64(v) kernel_names_bits(v)

/* Clang's thread-safety analysis (-Wthread-safety), as the kernel's context analysis uses it. */
#if defined(__clang__) && defined(HOST_THREAD_SAFETY)
#define __must_hold(...) __attribute__((requires_capability(__VA_ARGS__)))
#define __acquires(lock) __attribute__((acquire_capability(lock)))
#define __releases(lock) __attribute__((release_capability(lock)))
#define __cond_acquires(ret, lock) __attribute__((try_acquire_capability(ret, lock)))
#define __no_context_analysis __attribute__((no_thread_safety_analysis))
#define kernel_names_lock(kind) __attribute__((capability(kind)))
#else
#define __must_hold(...)
#define __acquires(lock)
#define __releases(lock)
#define __cond_acquires(ret, lock)
#define __no_context_analysis
#define kernel_names_lock(kind)
#endif

#endif
