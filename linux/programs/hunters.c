// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Hunters for stale translations. In each, a thread on one CPU uses memory all the time, so that its TLB holds the entry, and the
 * main thread on another CPU takes the memory away; if the flush is missing, the first one goes on with what it had.
 */
#include "programs.h"

static word *page;
static _Atomic uint64_t generation, faults, stale_seen;
static _Atomic bool over, hold;

/* After a fault of the user: the access is tried again, when the main thread has gone on. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	atomic_fetch_add(&faults, 1);
	while (atomic_load(&hold) && !atomic_load(&over))
		relax();
}

static pthread_t start(void *(*run)(void *))
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	pthread_t thread;

	sigaction(SIGSEGV, &action, NULL);
	pin(0);
	must(pthread_create(&thread, NULL, run, NULL) == 0, "pthread_create");
	return thread;
}

static uint64_t stop(pthread_t thread, uint64_t seen, uint64_t *stale)
{
	atomic_store(&hold, false);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	*stale += atomic_load(&stale_seen);
	return seen;
}

/* -- mprotect: the writer must fault ------------------------------------------------------------------------------- */

/* It only stores: an entry that it had loaded through would forbid its stores for ever, if flushes are left out. */
static void *writes(void *unused)
{
	(void)unused;
	pin(1 % cpus());
	for (uint64_t value = 1; !atomic_load_explicit(&over, memory_order_relaxed); value++) {
		page[0] = value;
		relax();
	}
	return NULL;
}

static uint64_t protect(uint64_t rounds, uint64_t *stale)
{
	uint64_t seen = 0;

	page = pages(NULL, PAGE);
	page[0] = 1;
	pthread_t thread = start(writes);
	for (uint64_t i = 0; i < rounds; i++) {
		for (uint64_t was = page[0]; page[0] == was;)
			relax();
		uint64_t before = atomic_load(&faults);
		atomic_store(&hold, true);
		must(mprotect((void *)page, PAGE, PROT_READ) == 0, "mprotect");
		uint64_t value = page[0];
		for (int spin = 0; spin < 50 && page[0] == value; spin++)
			relax();
		/* The writer's next store faults; if it never does, it writes through an entry that is gone. */
		while (atomic_load(&faults) == before && page[0] == value)
			relax();
		if (page[0] != value)
			++*stale;
		else
			seen++;
		must(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
		atomic_store(&hold, false);
	}
	return stop(thread, seen, stale);
}

/* -- Other contents at an address: a reader must see them ----------------------------------------------------------- */

/* The generation is odd while the page changes; what is read between two even ones that are equal must be it. */
static void *reads(void *unused)
{
	(void)unused;
	pin(1 % cpus());
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		uint64_t before = atomic_load(&generation);
		uint64_t value = page[0];
		uint64_t after = atomic_load(&generation);
		if (before == after && before % 2 == 0) {
			if (value != before)
				atomic_fetch_add(&stale_seen, 1);
			atomic_store(&faults, before); /* what it has seen last */
		}
		relax();
	}
	return NULL;
}

/* Stores by way of the kernel, not through an entry of this CPU, which would be stale as well. */
static void poke(word *at, uint64_t value)
{
	static int memory = -1;

	if (memory < 0)
		memory = open("/proc/self/mem", O_RDWR);
	must(pwrite(memory, &value, sizeof(value), (off_t)(uintptr_t)at) == sizeof(value), "/proc/self/mem");
}

/* The frame that was freed last is the next one that is used, and an entry of it would not be stale: it goes to another page. */
static void take_frame(void)
{
	static word *spare;
	word *taken = pages(NULL, PAGE);

	poke(taken, 1);
	if (spare)
		munmap((void *)spare, PAGE);
	spare = taken;
}

/* A fault of the reader says nothing: it reads again. */
static void on_absent(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
}

static uint64_t replaced(uint64_t rounds, uint64_t *stale, void (*replace)(uint64_t))
{
	uint64_t seen = 0, caught = 0;
	struct sigaction action = { .sa_sigaction = on_absent, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (!page)
		page = pages(NULL, PAGE);
	pthread_t thread = start(reads);
	sigaction(SIGSEGV, &action, NULL);
	for (uint64_t i = 1; i <= rounds; i++) {
		atomic_store(&generation, 2 * i - 1);
		replace(2 * i);
		take_frame();
		poke(page, 2 * i);
		atomic_store(&generation, 2 * i);
		/* Until the reader has read it, so that it holds the entry; or has read something else. */
		while (atomic_load(&faults) != 2 * i)
			relax();
		if (atomic_load(&stale_seen) == caught)
			seen++;
		caught = atomic_load(&stale_seen);
	}
	return stop(thread, seen, stale);
}

static void unmap_and_map(uint64_t value)
{
	(void)value;
	must(munmap((void *)page, PAGE) == 0, "munmap");
	must(pages((void *)page, PAGE) == (void *)page, "mmap");
}

static void map_over(uint64_t value)
{
	(void)value;
	must(pages((void *)page, PAGE) == (void *)page, "mmap");
}

static void dont_need(uint64_t value)
{
	(void)value;
	must(madvise((void *)page, PAGE, MADV_DONTNEED) == 0, "madvise");
}

static void move_over(uint64_t value)
{
	word *other = pages(NULL, PAGE);

	poke(other, value);
	must(mremap((void *)other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)page) == page, "mremap");
}

static uint64_t munmap_mmap(uint64_t rounds, uint64_t *stale)
{
	return replaced(rounds, stale, unmap_and_map);
}

static uint64_t mmap_over(uint64_t rounds, uint64_t *stale)
{
	return replaced(rounds, stale, map_over);
}

static uint64_t madvise_dontneed(uint64_t rounds, uint64_t *stale)
{
	return replaced(rounds, stale, dont_need);
}

static uint64_t mremap_over(uint64_t rounds, uint64_t *stale)
{
	return replaced(rounds, stale, move_over);
}

/* -- Tables that processes share: of files of huge pages, each in a whole table ---------------------------------------- */

#define TABLE (HUGE_PAGE / 8 * PAGE) /* what a table of huge pages maps */
static int shared_files[2];

static char *map_file(char *at, int file)
{
	char *memory = mmap(at, TABLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, shared_files[file], 0);

	must(memory == at, "mmap of huge pages");
	return memory;
}

static char *room(size_t tables)
{
	char *memory = mmap(NULL, (tables + 1) * TABLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	return (char *)(((uintptr_t)memory + TABLE - 1) & ~(TABLE - 1));
}

/* Has tables for both files, which the other process shares while it maps one of them. */
static _Noreturn void holds(_Atomic int *turn)
{
	char *files = room(2);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 2; i++)
		*(word *)map_file(files + i * TABLE, i) = 0;
	atomic_store(turn, 1);
	while (atomic_load(turn) != 2)
		sched_yield();
	*(word *)(files + HUGE_PAGE) = 1;
	atomic_store(turn, 3);
	for (;;)
		pause();
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* The table of one is left, and that of the other one joined. */
static void map_other_file(uint64_t value)
{
	map_file((char *)page, value / 2 % 2);
}

static uint64_t shared_tables(uint64_t rounds, uint64_t *stale)
{
	_Atomic int *turn = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(write_file("/proc/sys/vm/nr_hugepages", "4"), "nr_hugepages");
	for (int i = 0; i < 2; i++) {
		shared_files[i] = memfd_create("huge", 4 /* MFD_HUGETLB */);
		must(shared_files[i] >= 0 && ftruncate(shared_files[i], TABLE) == 0, "a file of huge pages");
	}
	pid_t holder = fork();
	must(holder >= 0, "fork");
	if (holder == 0)
		holds(turn);
	while (atomic_load(turn) != 1)
		sched_yield();
	char *file = map_file(room(1), 0);
	*(word *)file = 0;
	atomic_store(turn, 2);
	while (atomic_load(turn) != 3)
		sched_yield();
	/* The entry that the other process has made is there, without a fault. The first call has the stack copied, if need be. */
	minor_faults();
	long faulted = -minor_faults();
	uint64_t found = *(word *)(file + HUGE_PAGE);
	faulted += minor_faults();
	errno = ENODATA;
	must(found == 1 && faulted == 0, "the table is shared");
	page = (word *)file;
	uint64_t seen = replaced(rounds, stale, map_other_file);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	write_file("/proc/sys/vm/nr_hugepages", "0");
	return seen;
}

/* -- fork: the child's copy stands still while the parent writes ------------------------------------------------------ */

static uint64_t fork_copy(uint64_t rounds, uint64_t *stale)
{
	uint64_t seen = 0;

	page = pages(NULL, PAGE);
	page[0] = 1;
	pthread_t thread = start(writes);
	for (uint64_t i = 0; i < rounds; i++) {
		int status;
		for (uint64_t was = page[0]; page[0] == was;)
			relax();
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0) {
			uint64_t value = page[0];
			for (int spin = 0; spin < 4000; spin++, relax())
				if (page[0] != value)
					_exit(1);
			_exit(0);
		}
		must(waitpid(child, &status, 0) == child, "waitpid");
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			seen++;
		else
			++*stale;
	}
	return stop(thread, seen, stale);
}

/* -- Pages that move below the writer's feet: swapped out, made huge, split, compacted -------------------------------- */

#define WORDS 64 /* pages that the writer uses: more than a CPU holds back from the lists of reclaim */
/* Between them. In pages it is odd: where a TLB has one place for each page, by the low bits of its number, they have places of their own. */
static size_t step;
static uint64_t last[WORDS];
static _Atomic bool rests;
static _Atomic uint64_t sweeps;

/*
 * Each word is what this thread wrote last; another value is a store that went to a frame which was no longer the page's. While `hold`
 * is set, the thread rests after a sweep.
 */
static void *remembers(void *unused)
{
	(void)unused;
	pin(1 % cpus());
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		for (size_t i = 0; i < WORDS; i++) {
			word *at = (word *)((char *)page + i * step);
			for (int again = 0; again < 8; again++) {
				if (*at != last[i])
					atomic_fetch_add(&stale_seen, 1);
				*at = ++last[i];
			}
		}
		atomic_fetch_add(&sweeps, 1);
		relax();
		while (atomic_load(&hold) && !atomic_load(&over)) {
			atomic_store(&rests, true);
			relax();
		}
	}
	return NULL;
}

/* What is in the frames is what the writer has stored: who has a stale entry finds its own stores there, and nobody else does. */
static void compare(void)
{
	atomic_store(&rests, false);
	atomic_store(&hold, true);
	while (!atomic_load(&rests))
		relax();
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t found = 0;
		struct iovec here = { &found, sizeof(found) };
		struct iovec there = { (char *)page + i * step, sizeof(found) };
		/* By the kernel, which finds the frame in the page table. */
		must(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(found), "process_vm_readv");
		if (found != last[i])
			atomic_fetch_add(&stale_seen, 1);
	}
	atomic_store(&hold, false);
}

static uint64_t moved(uint64_t rounds, uint64_t *stale, void (*move)(void))
{
	uint64_t seen = 0, caught = 0;

	memset(last, 0, sizeof(last));
	pthread_t thread = start(remembers);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t before = atomic_load(&sweeps);
		move();
		while (atomic_load(&sweeps) < before + 2)
			relax();
		compare();
		if (atomic_load(&stale_seen) == caught)
			seen++;
		caught = atomic_load(&stale_seen);
	}
	return stop(thread, seen, stale);
}

static void page_out(void)
{
	must(madvise((void *)page, WORDS * step, 21 /* MADV_PAGEOUT */) == 0, "madvise(MADV_PAGEOUT)");
}

static uint64_t swap_out(uint64_t rounds, uint64_t *stale)
{
	step = PAGE;
	page = pages(NULL, WORDS * PAGE);
	must(madvise((void *)page, WORDS * step, MADV_NOHUGEPAGE) == 0, "madvise");
	uint64_t seen = moved(rounds, stale, page_out);
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	printf("SWAPPED %ld pages were read from the swap device\n", usage.ru_majflt);
	fflush(stdout);
	errno = ENODATA;
	must(usage.ru_majflt > 0, "pages come back from the swap device");
	return seen;
}

/* Made huge at once, and split by taking away a page that the writer does not use. */
static void collapse_and_split(void)
{
	madvise((void *)page, HUGE_PAGE, 25 /* MADV_COLLAPSE */);
	madvise((char *)page + 5 * PAGE, PAGE, MADV_DONTNEED); /* not one of WORDS */
}

static uint64_t huge_pages(uint64_t rounds, uint64_t *stale)
{
	char *memory = pages(NULL, 2 * HUGE_PAGE);

	step = 7 * PAGE;
	page = (word *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	return moved(rounds, stale, collapse_and_split);
}

static void compact(void)
{
	must(write_file("/proc/sys/vm/compact_memory", "1"), "compact_memory");
}

/* In each round from another place, with memory that is free again in between: what was moved has no reason to move once more. */
static uint64_t compaction(uint64_t rounds, uint64_t *stale)
{
	uint64_t seen = 0;

	step = 65 * PAGE;
	while (rounds--) {
		char *memory = pages(NULL, WORDS * step);
		must(madvise(memory, WORDS * step, MADV_NOHUGEPAGE) == 0, "madvise");
		for (size_t at = 0; at < WORDS * step; at += PAGE)
			memory[at] = 0;
		for (size_t at = 0; at < WORDS * step; at += step)
			madvise(memory + at + PAGE, step - PAGE, MADV_DONTNEED);
		page = (word *)memory;
		atomic_store(&over, false);
		atomic_store(&stale_seen, 0);
		seen += moved(1, stale, compact);
	}
	return seen;
}

/* -- Many address spaces: each reads its own page -------------------------------------------------------------------- */

static uint64_t tags(uint64_t rounds, uint64_t *stale)
{
	uint64_t seen = 0;
	pid_t children[40];

	page = pages(NULL, PAGE);
	for (size_t i = 0; i < 40; i++) {
		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (children[i] != 0)
			continue;
		page[0] = i + 1;
		for (uint64_t round = 0; round < rounds; round++) {
			for (int again = 0; again < 20; again++)
				if (page[0] != i + 1)
					_exit(1);
			sched_yield();
			if (round % 64 == 0)
				pin((round / 64 + i) % cpus());
		}
		_exit(0);
	}
	for (size_t i = 0; i < 40; i++) {
		int status;
		must(waitpid(children[i], &status, 0) == children[i], "waitpid");
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			seen += rounds;
		else
			++*stale;
	}
	return seen;
}

const struct hunter hunters[] = {
	{ "protect", protect, 30000, false },
	{ "munmap-mmap", munmap_mmap, 20000, false },
	{ "mmap-over", mmap_over, 20000, false },
	{ "madvise-dontneed", madvise_dontneed, 20000, false },
	{ "mremap-over", mremap_over, 10000, false },
	{ "shared-tables", shared_tables, 5000, true },
	{ "fork-copy", fork_copy, 1000, false },
	{ "swap-out", swap_out, 3000, false },
	{ "huge-pages", huge_pages, 300, false },
	{ "compaction", compaction, 50, false },
	{ "address-spaces", tags, 500, false },
	{ NULL, NULL, 0, false },
};
