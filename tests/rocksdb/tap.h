// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tap.h - cases in C++ that print TAP: functions that throw what is wrong. */
#ifndef EBB_TESTS_ROCKSDB_TAP_H
#define EBB_TESTS_ROCKSDB_TAP_H

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace ebb_test {

struct Case {
	const char *name;
	void (*run)();
};

#define CASE(fn) ebb_test::Case{#fn, fn}

#define check(ok, why) \
	((ok) ? (void)0 : throw std::runtime_error(std::string(#ok ": ") + (why)))

/* Percent of their steps that random cases take; as the tests in C have it. */
inline unsigned scale()
{
	const char *s = std::getenv("EBB_TEST_SCALE");

	return s ? static_cast<unsigned>(std::atoi(s)) : 100;
}

inline bool full_dose()
{
	return scale() > 100;
}

inline int run_cases(const std::vector<Case> &cases)
{
	unsigned number = 0, failed = 0;

	std::printf("1..%zu\n", cases.size());
	for (const Case &c : cases) {
		std::string why;

		try {
			c.run();
		} catch (const std::exception &e) {
			why = e.what();
			failed++;
		}
		if (!why.empty())
			std::printf("# %s\nnot ", why.c_str());
		std::printf("ok %u - %s\n", ++number, c.name);
		std::fflush(stdout);
	}
	return failed != 0;
}

}  // namespace ebb_test

#endif
