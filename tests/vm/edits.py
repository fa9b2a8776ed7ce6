#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Edits that the test kernels need, made on a downloaded source at build time.

    edits.py smp SRC            SMP user-mode kernels: the memory order of x86, cheap interrupt
                                masking, TLB flushes that take effect, copies to and from a
                                process that hold its page
    edits.py floor SRC DEST     in-tree zram whose slot-free notify does nothing
    edits.py patched SRC DEST   in-tree zsmalloc on its class-index path
    edits.py hash               a hash of this file: the key of what was edited

Every edit names the lines it expects and fails when they are not there exactly as
often as said, so a newer source is noticed and never half edited.
"""
import hashlib
import pathlib
import re
import shutil
import sys


class Edit:
    """One source file, edited in memory, written back by save()."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        try:
            self.text = self.path.read_text()
        except OSError as e:
            sys.exit(f"edits: {path}: {e.strerror}")

    def sub(self, pattern, to, count=1):
        """Replace a regular expression that must match `count` times."""
        self.text, n = re.subn(pattern, lambda m: m.expand(to), self.text, flags=re.M)
        if n != count:
            sys.exit(f"edits: {self.path}: {pattern!r} found {n} times, expected {count}")
        return self

    def save(self, to=None):
        pathlib.Path(to or self.path).write_text(self.text)


def order(src):
    """User-mode Linux takes fences for what x86 keeps in order by itself: its smp_store_release(),
    and so spin_unlock(), is an mfence and a store, and who has just written a cold line waits in
    it. Here those barriers are x86's own: compiler barriers, and a locked instruction for smp_mb().

    The word uml_fences on the command line brings the fences back, so that one build shows what
    they are worth. Each place is an instruction of three bytes that does nothing (smp_mb()'s has
    six), and its address is in the section uml_fences with the last byte of the fence that
    user-mode Linux has there: mfence, lfence and sfence are 0f ae and f0, e8 or f8."""
    head = Edit(f"{src}/arch/x86/um/asm/barrier.h")
    head.sub(r"^#include <asm-generic/barrier.h>\n", r"""#ifdef CONFIG_X86_64

#define UML_FENCE(insn, last)					\\
	asm_inline volatile("1: " insn "\\n"			\\
		     ".pushsection uml_fences, \\"a\\"\\n"		\\
		     ".quad 1b, " last "\\n"			\\
		     ".popsection" : : : "memory", "cc")
#define UML_NOTHING	".byte 0x0f, 0x1f, 0x00"

#define __smp_mb()	UML_FENCE("lock addl $0,-4(%%rsp)", "0xf0")
#define __smp_rmb()	UML_FENCE(UML_NOTHING, "0xe8")
#define __smp_wmb()	UML_FENCE(UML_NOTHING, "0xf8")
#define __smp_mb__before_atomic()	UML_FENCE(UML_NOTHING, "0xf0")
#define __smp_mb__after_atomic()	UML_FENCE(UML_NOTHING, "0xf0")

#define __smp_store_release(p, v)				\\
do {								\\
	compiletime_assert_atomic_type(*p);			\\
	UML_FENCE(UML_NOTHING, "0xf0");				\\
	WRITE_ONCE(*p, v);					\\
} while (0)

#define __smp_load_acquire(p)					\\
({								\\
	__unqual_scalar_typeof(*p) ___p1 = READ_ONCE(*p);	\\
	compiletime_assert_atomic_type(*p);			\\
	UML_FENCE(UML_NOTHING, "0xf0");				\\
	(typeof(*p))___p1;					\\
})

#endif /* CONFIG_X86_64 */

\g<0>""")
    head.save()

    arch = Edit(f"{src}/arch/um/kernel/um_arch.c")
    arch.sub(r"^void apply_alternatives\(", r"""struct uml_fence {
	u8 *at;
	u64 last;
};

extern struct uml_fence __start_uml_fences[] __weak, __stop_uml_fences[] __weak;
static bool uml_fences;

static void uml_fences_put(struct uml_fence *f, struct uml_fence *end)
{
	pr_info("uml_fences: %td\\n", end - f);
	for (; f < end; f++) {
		/* The second half of smp_mb()'s instruction does nothing then. */
		if (f->at[0] == 0xf0)
			memcpy(f->at + 3, "\\x0f\\x1f", 3);
		memcpy(f->at, "\\x0f\\xae", 2);
		f->at[2] = f->last;
	}
}

static int __init uml_fences_set(char *s)
{
	struct uml_fence *f;

	for (f = __start_uml_fences; f < __stop_uml_fences; f++)
		if (os_protect_memory((void *)((unsigned long)f->at & PAGE_MASK),
				      2 * PAGE_SIZE, 1, 1, 1))
			panic("uml_fences: no fence at %px", f->at);
	uml_fences = true;
	uml_fences_put(__start_uml_fences, __stop_uml_fences);
	return 0;
}
early_param("uml_fences", uml_fences_set);

/* Of a module, which loads later. */
void uml_fences_module(const Elf_Shdr *s);
void uml_fences_module(const Elf_Shdr *s)
{
	struct uml_fence *f = (struct uml_fence *)s->sh_addr;

	if (uml_fences)
		uml_fences_put(f, f + s->sh_size / sizeof(*f));
}

\g<0>""")
    arch.save()

    module = Edit(f"{src}/arch/x86/kernel/module.c")
    module.sub(r"^int module_finalize\(", r"void uml_fences_module(const Elf_Shdr *s);\n\n\g<0>")
    module.sub(r'^\t\tif \(!strcmp\("\.altinstructions", secstrings \+ s->sh_name\)\)\n',
               r"""		if (!strcmp("uml_fences", secstrings + s->sh_name))
			uml_fences_module(s);
\g<0>""")
    module.save()


def irq(src):
    """Disabling interrupts on SMP user-mode Linux costs a system call: the signal
    that carries inter-processor interrupts is masked at the host. Here it stays
    open and the handler leaves a bit in a per-thread word when interrupts are off;
    unblock_signals() picks the bits up. Vectors are idempotent, so a bit each does.

    The word is written in two places that cannot meet on one thread: the handler
    when interrupts are off (it may nest in itself, hence the atomic), and
    unblock_signals() when they are on."""
    sig = Edit(f"{src}/arch/um/os-Linux/signal.c")
    sig.sub(r"^\tos_local_ipi_disable\(\);\n\tbarrier\(\);\n", "")
    sig.sub(r"^\tbarrier\(\);\n\tos_local_ipi_enable\(\);\n", "")
    sig.sub(r"^static __thread unsigned int signals_active;\n",
            r"\g<0>__thread unsigned int ipis_pending;\n")
    sig.sub(r"^void unblock_signals\(void\)\n\{\n\tint save_pending;\n",
            r"\g<0>\tunsigned int ipis;\n")
    sig.sub(r"^\t\tsave_pending = signals_pending;\n\t\tif \(save_pending == 0\)\n",
            "\t\tsave_pending = signals_pending;\n\t\tipis = ipis_pending;\n"
            "\t\tif (save_pending == 0 && ipis == 0)\n")
    sig.sub(r"^\t\tsignals_pending = 0;\n", r"\g<0>\t\tipis_pending = 0;\n")
    # After the interrupts are off again. When only these were pending, go round:
    # the early return below is about a timer that must not re-enter.
    sig.sub(r"^\t\t__block_signals\(\);\n\t\tum_trace_signals_off\(\);\n",
            r"\g<0>" """
		for (; ipis; ipis &= ipis - 1)
			uml_ipi_handler(__builtin_ctz(ipis));
		if (save_pending == 0) {
			um_trace_signals_on();
			__unblock_signals();
			continue;
		}
""")
    if "#include <smp.h>" not in sig.text:
        sig.sub(r"^#include <skas.h>\n", r"\g<0>#if IS_ENABLED(CONFIG_SMP)\n#include <smp.h>\n#else\n"
                r"static inline void uml_ipi_handler(int vector) { }\n#endif\n")
    sig.save()

    head = Edit(f"{src}/arch/um/os-Linux/internal.h")
    head.sub(r"^extern __thread int signals_enabled;\n",
             r"\g<0>extern __thread unsigned int ipis_pending;\n")
    head.save()

    smp = Edit(f"{src}/arch/um/os-Linux/smp.c")
    smp.sub(r"^\tsignals_enabled = 0;\n\tum_trace_signals_off\(\);\n\n"
            r"\tuml_ipi_handler\((.*)\);\n\n\tum_trace_signals_on\(\);\n\tsignals_enabled = 1;\n",
            """\tif (!signals_enabled) {
		__atomic_or_fetch(&ipis_pending, 1u << \\1, __ATOMIC_RELAXED);
	} else {
		block_signals_trace();
		uml_ipi_handler(\\1);
		um_set_signals_trace(1);
	}
""")
    # A nested one only leaves its bit, or finds interrupts on, as on a real machine.
    smp.sub(r"SA_SIGINFO \| SA_ONSTACK \| SA_RESTART,", "SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER,")
    smp.sub(r"^\tsigfillset\(&action\.sa_mask\);\n",
            "\tsigemptyset(&action.sa_mask);\n" + "".join(
                f"\tsigaddset(&action.sa_mask, {s});\n" for s in ("SIGIO", "SIGWINCH", "SIGALRM", "SIGCHLD")))
    smp.sub(r"^\tsigaddset\(&data->sigset, IPI_SIGNAL\);\n", "\tsigdelset(&data->sigset, IPI_SIGNAL);\n")
    smp.save()

    # The idle loop relied on the mask: block for the check, and look at the bits.
    time = Edit(f"{src}/arch/um/os-Linux/time.c")
    time.sub(r"^\tsigaddset\(&set, SIGALRM\);\n(?=\tsigprocmask)", r"\g<0>\tsigaddset(&set, IPI_SIGNAL);\n")
    time.sub(r"if \(!uml_need_resched\(\) && !timer_alarm_pending\(\)\)",
             "if (!uml_need_resched() && !timer_alarm_pending() && !ipis_pending)")
    time.save()


def tlb(src):
    """A flush of the TLB notes what the process's host address space has to unmap when
    the process next leaves the kernel. One that runs in user mode on another CPU meanwhile
    writes on into a page that is unmapped, compressed and freed (guest test pageout). Here
    a word says whether the process may be in user mode, and a flush that finds it set
    gets it out and waits (the word becomes 2: somebody is to be woken); the process comes
    back over current_mm_sync(). That one clears the word before it takes page_table_lock,
    which a flush may hold."""
    head = Edit(f"{src}/arch/um/include/shared/skas/mm_id.h")
    head.sub(r"^\tint syscall_data_len;\n", r"\g<0>\tint in_user;\n")
    head.sub(r"^void notify_mm_kill\(", r"void mm_left_user(struct mm_id *mm_id);\n\g<0>")
    head.save()

    user = Edit(f"{src}/arch/um/os-Linux/skas/process.c")
    user.sub(r"^\t\texit_turnstile\(mm_id\);\n", r"\t\tmm_left_user(mm_id);\n\g<0>")
    user.sub(r"^int using_seccomp;\n", r"\g<0>" """
void mm_left_user(struct mm_id *mm_id)
{
	if (__atomic_exchange_n(&mm_id->in_user, 0, __ATOMIC_SEQ_CST) == 2)
		os_futex_wake(&mm_id->in_user);
}
""")
    # A mapping that the host refuses is not told by SIGTRAP but by SIGSYS, which is then taken for
    # a system call of the process.
    user.sub(r"^\t\t\tproc_data->syscall_data_len = mm_id->syscall_data_len;\n",
             r"\g<0>\t\t\tproc_data->err = 0;\n")
    user.sub(r"^\t\t\tif \(sig == SIGTRAP && proc_data->err != 0\) \{\n", """\t\t\tif (proc_data->err != 0) {
				if (proc_data->err == -ENOMEM)
					report_enomem();
""")
    user.save()

    new = Edit(f"{src}/arch/um/kernel/skas/mmu.c")
    new.sub(r"^\tnew_id->syscall_data_len = 0;\n", r"\g<0>\tnew_id->in_user = 0;\n")
    new.save()

    sync = Edit(f"{src}/arch/um/kernel/skas/process.c")
    sync.sub(r"^\tum_tlb_sync\(current->mm\);\n", """\tdo {
		mm_left_user(&current->mm->context.id);
		um_tlb_sync(current->mm);
		smp_store_mb(current->mm->context.id.in_user, 1);
	} while (READ_ONCE(current->mm->context.sync_tlb_range_to));
""")
    sync.save()

    inline = Edit(f"{src}/arch/um/include/asm/tlbflush.h")
    inline.sub(r"^(extern int um_tlb_sync\(.*\);\n)", r"\1extern void um_tlb_leave_user(struct mm_struct *mm);\n")
    inline.sub(r"^\tum_tlb_mark_sync\(vma->vm_mm, .*\);\n", r"\g<0>\tum_tlb_leave_user(vma->vm_mm);\n", count=2)
    inline.save()

    flush = Edit(f"{src}/arch/um/kernel/tlb.c")
    flush.sub(r"^(\t\tum_tlb_mark_sync\(mm, vma->vm_start, vma->vm_end\);\n)", r"\1\tum_tlb_leave_user(mm);\n")
    flush.sub(r"^void flush_tlb_all\(void\)\n", """void um_tlb_leave_user(struct mm_struct *mm)
{
	int *word = &mm->context.id.in_user;
	int pid;

	smp_mb();
	while (smp_load_acquire(word)) {
		pid = READ_ONCE(mm->context.id.pid);
		if (pid < 0)
			break;
		if (cmpxchg(word, 1, 2) == 0)
			continue;
		os_alarm_process(pid);
		os_futex_wait(word, 2);
		/* It was out: what it comes back to has been synced. */
		if (READ_ONCE(*word) != 2)
			break;
	}
}

\\g<0>""")
    flush.save()

    # The host's mapping may lack what an up-to-date PTE says: the process that faults there would
    # fault for ever.
    fault = Edit(f"{src}/arch/um/kernel/trap.c")
    fault.sub(r"^\t\} while \(!pte_present\(\*pte\)\);\n\terr = 0;\n", r"\g<0>" """
	if (is_user) {
		spin_lock(&mm->page_table_lock);
		if (pte_present(*pte)) {
			*pte = pte_mkneedsync(*pte);
			um_tlb_mark_sync(mm, address & PAGE_MASK,
					 (address & PAGE_MASK) + PAGE_SIZE);
		}
		spin_unlock(&mm->page_table_lock);
	}

""")
    fault.save()


def uaccess(src):
    """Copies to and from a process look up a page and use it with nothing held: another CPU
    pages it out and frees it meanwhile. And a page that was read in, which may be written but is
    not dirty, is written without being made dirty, so that what is in swap still passes for it.
    Both lose writes (guest test pageout --call). Here the table's lock is held from the look to
    the end of the copy, and a write asks for a dirty page, as the host's mapping does."""
    copy = Edit(f"{src}/arch/um/kernel/skas/uaccess.c")
    copy.sub(r"^static pte_t \*maybe_map\(unsigned long virt, int is_write\)\n\{\n(?:.*\n)*?\}\n",
             """/* With page_table_lock, unless it is NULL; user_page_put() lets that go. */
static pte_t *user_page_get(unsigned long virt, int is_write)
{
	struct mm_struct *mm = current->mm;
	int dummy_code, tries;
	pte_t *pte;

	if (!mm)
		return NULL;
	for (tries = 0;; tries++) {
		spin_lock(&mm->page_table_lock);
		pte = virt_to_pte(mm, virt);
		if (pte && pte_present(*pte) &&
		    (!is_write || (pte_write(*pte) && pte_dirty(*pte))))
			return pte;
		spin_unlock(&mm->page_table_lock);
		if (handle_page_fault(virt, 0, is_write, 1, &dummy_code) ||
		    (tries && fatal_signal_pending(current)))
			return NULL;
	}
}

static void user_page_put(void)
{
	spin_unlock(&current->mm->page_table_lock);
}
""")
    copy.sub(r"maybe_map\(", "user_page_get(", count=3)
    copy.sub(r"^#ifdef CONFIG_64BIT\n\tpagefault_enable\(\);\n"
             r"#else\n\tkunmap_atomic\(.*\);\n#endif\n",
             r"\g<0>\tuser_page_put();\n", count=3)
    copy.save()


def floor(src, dest):
    """The floor of the experiment: everything but the free itself."""
    dest = pathlib.Path(dest)
    shutil.copytree(f"{src}/drivers/block/zram", dest, dirs_exist_ok=True)
    drv = Edit(dest / "zram_drv.c")
    drv.sub(r"^(static void zram_slot_free_notify\(struct block_device \*bdev,\n.*unsigned long index\)\n\{\n"
            r"\tstruct zram \*zram;\n)", r"\1\n\treturn;\n")
    drv.save()


def patched(src, dest):
    """User-mode Linux defines no bound on physical addresses, so zsmalloc has no room
    for the class index in its references and takes its older path. With the bound of
    x86-64 it takes the one that distributions run; the assertion keeps that honest."""
    dest = pathlib.Path(dest)
    dest.mkdir(parents=True, exist_ok=True)
    shutil.copy(f"{src}/mm/zpdesc.h", dest)
    zs = Edit(f"{src}/mm/zsmalloc.c")
    zs.sub(r"^MODULE_LICENSE\(", 'static_assert(ZS_OBJ_CLASS_BITS > 0, "the class index is not in the reference");\n\\g<0>')
    zs.save(dest / "zsmalloc.c")
    (dest / "Kbuild").write_text("obj-m := zsmalloc.o\nccflags-y := -DMAX_POSSIBLE_PHYSMEM_BITS=46\n")


def main(argv):
    if argv[1:] == ["hash"]:
        print(hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:10])
    elif len(argv) == 3 and argv[1] == "smp":
        order(argv[2])
        irq(argv[2])
        tlb(argv[2])
        uaccess(argv[2])
    elif len(argv) == 4 and argv[1] in ("floor", "patched"):
        globals()[argv[1]](argv[2], argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
