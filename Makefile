# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The front door of Ebb.  Meson does the work, in build/; this file asks for the Debian
# packages that are missing, finds the tools and gives each job one name.

PREFIX  ?= /usr/local
DESTDIR ?=
# Options of the build, for example MESON_OPTIONS=-Dlzo=disabled; kept until others are given.
MESON_OPTIONS ?=
# The shell takes paths from the environment, where a space is a space.
export PREFIX DESTDIR MESON_OPTIONS
# demo, measure WHAT=library: auto compares with the host kernel's zram where that can be had; 0 never does.
VS_KERNEL ?= auto
# module: the kernel's folder to build modules against.
KDIR ?= /lib/modules/$(shell uname -r)/build
# install-module: the kernel it is for; empty is the one that runs.
KERNEL ?=
# measure WHAT=kernel, linux, tiers, pressure: boots of each variant; hardware, programs: rounds of each row.
ROUNDS ?= 5
# measure WHAT=kernel: more options of bench/kernel/latency; --short is a short form of it.
LATENCY ?=
# ab: the commit to compare with; empty is main.
BASE ?=
# measure WHAT=python, hardware: options of scripts/demo-python, of bench/kernel/hardware; deb, rpm:
# of dpkg-buildpackage, of rpmbuild.
ARGS ?=
# check-full, check-rest: minutes after which no stage begins; what is left is skipped and told.
MINUTES ?=
# fuzz: seconds for each fuzzer.
FUZZ_SECONDS ?= 3600

# Debian's meson has to run on Debian's python3, so a pyenv or pip ahead in PATH must not
# come between.  The shell looks them up when they are used, since make expands a whole recipe
# before its first line, scripts/deps, has installed them.
MESON  = $$(command -v /usr/bin/meson || command -v meson)
PYTHON = $$(command -v /usr/bin/python3 || command -v python3)

# What there is to measure, below; each writes build/bench/*.json, which the report draws.
MEASURES := $(shell sed -n 's/^measure-\([a-z]*\):.*/\1/p' Makefile)
WHAT ?=

.DEFAULT_GOAL := build
.PHONY: ab build check check-full check-kernel check-linux check-long check-rest clean configure \
	coverage deb demo deps dist fuzz help install install-module linux measure module report rpm \
	uninstall uninstall-module $(MEASURES:%=measure-%)
.NOTPARALLEL:

help: # list these targets
	@echo 'Ebb: a zram for Linux, and a C library with the same allocator.'
	@for group in use see develop; do \
		echo; echo "To $$group:"; \
		awk -F ":.*## $$group: " "/^[a-z-]+:.*## $$group: / { printf \"  make %-16s %s\\n\", \$$1, \$$2 }" \
			Makefile; \
	done
	@echo
	@echo 'Variables: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) MESON_OPTIONS= VS_KERNEL=auto|0 KDIR=$(KDIR) KERNEL= ROUNDS=$(ROUNDS) BASE= ARGS= MINUTES= FUZZ_SECONDS=$(FUZZ_SECONDS)'

build: configure ## use: build libebb and the command build/ebb (the default)
	@$(MESON) compile -C build

configure:
	@scripts/deps build
	@test -f build/build.ninja || { \
		$(MESON) setup build --prefix="$$PREFIX" $(MESON_OPTIONS) && \
		printf %s "$$MESON_OPTIONS" >build/make-options; }
	@[ -z "$$MESON_OPTIONS" ] || \
		[ "$$MESON_OPTIONS" = "$$(cat build/make-options 2>/dev/null)" ] || { \
		$(MESON) configure build $(MESON_OPTIONS) && \
		printf %s "$$MESON_OPTIONS" >build/make-options; }

measure-library: build ## measure library: every bench of bench/user with its defaults
	@mkdir -p build/bench
	@[ '$(VS_KERNEL)' = 0 ] || [ "$$(id -u)" != 0 ] || [ ! -e /sys/class/zram-control ] || \
		kernel=--vs-kernel; \
	build/bench-user density $$kernel --out build/bench/density.json || \
		build/bench-user density --out build/bench/density.json
	@for b in release store malloc latency; do \
		build/bench-user $$b --out build/bench/$$b.json || exit; done
	@build/bench-user values --values 100000 --threads 1 --out build/bench/values.json
	@build/bench-user values --values 500000 --from 100 --to 100 --threads 1 \
		--out build/bench/values-100.json
	@build/bench-user cache --threads 1,2 --rounds 1 --out build/bench/ebb-cache.json

demo: build ## use: store, verify and release real pages; their memory beside this kernel's zram
	@VS_KERNEL='$(VS_KERNEL)' $(PYTHON) scripts/demo

check: ## develop: every kind of test in small doses, a real kernel included; about 10 minutes
	@scripts/deps check
	@$(PYTHON) scripts/check

check-full: ## develop: the same in full doses: an hour
	@scripts/deps full
	@$(PYTHON) scripts/check --full $(if $(MINUTES),--minutes '$(MINUTES)')

check-rest: # what check-full has beyond a check that was made; with it, what CI runs
	@scripts/deps full
	@$(PYTHON) scripts/check --rest $(if $(MINUTES),--minutes '$(MINUTES)')

check-long: ## develop: the stress program for ten minutes in each of three builds, and an hour of a real kernel
	@scripts/deps check
	@$(PYTHON) scripts/check --long

ab: ## develop: the benches of this tree and of BASE by turns; no figure may be more than 3 % worse
	@scripts/deps build
	@$(PYTHON) scripts/versus $(BASE)

coverage: ## develop: lines and branches of core/ that the tests run, and each that they do not
	@scripts/deps check
	@$(PYTHON) scripts/coverage

measure: ## see: figures of WHAT=kernel and so on, by turns with the rival; without it, what there is
	@[ -n '$(filter $(WHAT),$(MEASURES))' ] || { \
		echo "WHAT='$(WHAT)': expected one of"; \
		sed -n 's/^measure-.*## measure \([a-z]*\): /  \1\t/p' Makefile | expand -t 12; exit 2; } >&2
	@$(MAKE) --no-print-directory measure-$(WHAT)

report: ## see: docs/figures and later runs as one page, build/report/index.html
	@scripts/deps report
	@$(PYTHON) bench/report/run

measure-scale: build ## measure scale: what core/ does on 1 to 512 simulated CPUs
	@$(PYTHON) bench/scale/run

fuzz: ## develop: every fuzzer for FUZZ_SECONDS on all CPUs; findings in build/fuzz/artifacts/
	@scripts/deps check
	@$(PYTHON) scripts/fuzz --seconds '$(FUZZ_SECONDS)'

module: ## use: zram.ko against KDIR, in build/module/
	@scripts/module '$(KDIR)'

install-module: ## use: zram.ko through DKMS, for this kernel and those to come (as root)
	@KERNEL='$(KERNEL)' scripts/dkms install

uninstall-module: ## use: take it out of DKMS; the kernel's own zram is back (as root)
	@KERNEL='$(KERNEL)' scripts/dkms remove

measure-kernel: ## measure kernel: munmap, kill, worst case and instructions in kernels, beside in-tree zram
	@scripts/deps uml
	@ko=$$(scripts/module uml-smp) && bench/kernel/run --ebb "$$ko" --rounds $(ROUNDS) \
		--json build/bench/kernel-release.json && \
		bench/kernel/latency --ebb "$$ko" --rounds $(ROUNDS) $(LATENCY) \
		--traced "$$(scripts/module irqsoff)" && \
		{ bench/kernel/counted --ebb "$$(scripts/module counted)" || [ $$? = 77 ]; } && \
		{ bench/native/run --rounds $(ROUNDS) || [ $$? = 77 ]; }

measure-hardware: ## measure hardware: munmap and kill on this machine, its own zram and Ebb by turns (as root); asks first
	@$(PYTHON) bench/kernel/hardware --rounds $(ROUNDS) $(ARGS)

measure-linux: ## measure linux: the same of in-tree zram and zswap before and after linux/series
	@scripts/deps uml
	@bench/linux/run --rounds $(ROUNDS) --json build/bench/linux-release.json && \
		{ bench/linux/counted || [ $$? = 77 ]; }

measure-tiers: ## measure tiers: writeback, swap-in, recompression, a full device; in-tree and Ebb by turns
	@scripts/deps uml
	@ko=$$(scripts/module uml-smp) && bench/kernel/tiers --ebb "$$ko" --rounds $(ROUNDS) \
		--json build/bench/tiers.json

measure-units: ## measure units: memory and time of pages that are compressed together, by codec and size
	@scripts/deps uml
	@ko=$$(scripts/module uml-smp) && bench/kernel/units --ebb "$$ko" --rounds $(ROUNDS) \
		--json build/bench/kernel-units.json
	@{ bench/kernel/units --kernel counted --ebb "$$(scripts/module counted)" --rounds 1 --mb 2 \
		--json build/bench/kernel-units-counted.json || [ $$? = 77 ]; }

measure-programs: build ## measure programs: nbdkit and RocksDB, Ebb's plugins beside their own; 12 minutes a round
	@scripts/deps check
	@ls build/nbdkit-ebb-plugin.so build/librocksdb_ebb.so >/dev/null 2>&1 || \
		$(MESON) setup --reconfigure build >/dev/null
	@$(MESON) compile -C build
	@mkdir -p build/bench
	@bench/programs/nbd --rounds $(ROUNDS) --json build/bench/nbd.json
	@bench/programs/rocksdb --rounds $(ROUNDS) --json build/bench/cache.json

measure-python: ## measure python: Dask workers that spill to disk, stock and with Ebb; ARGS="--only workload=fields" for some
	@scripts/deps check
	@scripts/demo-python $(ARGS)

measure-pressure: ## measure pressure: swap in a kernel that is short of memory, in-tree and Ebb by turns
	@scripts/deps uml
	@ko=$$(scripts/module uml-smp) && bench/kernel/pressure --ebb "$$ko" --runs $(ROUNDS)

check-kernel: ## develop: every guest test on every kernel, with KASAN, lockdep and KCSAN, too
	@scripts/deps kernel
	@$(MAKE) --no-print-directory build
	@$(PYTHON) scripts/check --all-kernels

linux: # user-mode kernels of Linux 7.3: as it is, and with linux/series
	@scripts/deps uml
	@tests/vm/kernels build uml-series-0 $$(tests/vm/kernels list | grep -x 'uml-series-[0-9]*' | tail -1)

check-linux: # a kernel after each patch of the series; in-tree zram and zswap on the last
	@scripts/deps uml
	@$(PYTHON) linux/series/check --each
	@$(PYTHON) linux/check

# The prefix is written into ebb.pc, so it is set again here: install may follow a build for
# another one.  ldconfig only where the library went to the running system's own folders.
install: build ## use: install below DESTDIR and PREFIX (/usr/local)
	@$(MESON) configure build -Dprefix="$$PREFIX"
	@$(MESON) install -C build $${DESTDIR:+--destdir "$$(realpath -m -- "$$DESTDIR")"}
	@if [ -z "$$DESTDIR" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall: configure ## use: remove what `make install` with the same DESTDIR and PREFIX left
	@$(MESON) configure build -Dprefix="$$PREFIX"
	@ninja -C build build.ninja >/dev/null
	@$(PYTHON) scripts/uninstall build $${DESTDIR:+"$$(realpath -m -- "$$DESTDIR")"}
	@if [ -z "$$DESTDIR" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

dist: ## develop: the tarball of a release, build/dist/ebb-VERSION.tar.xz, seen to build by itself
	@scripts/deps build
	@$(PYTHON) scripts/dist

deb: ## use: the Debian packages, in build/deb/; ARGS=-A: the module's alone
	@scripts/deps deb$(if $(filter -A,$(ARGS)),-module)
	@scripts/package deb build/deb $(ARGS)

rpm: ## use: the same as RPMs, in build/rpm/
	@scripts/deps rpm
	@scripts/package rpm build/rpm $(if $(ARGS),$(ARGS),-ba)

clean: ## develop: remove build/
	rm -rf build

deps: ## use: install the Debian packages for all of the above (as root), or print the command
	@scripts/deps all
