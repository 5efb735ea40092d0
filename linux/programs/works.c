// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What is counted: operations on one CPU that change page tables or switch address spaces, between two marks for the plugin.
 */
#include "programs.h"
#include <sys/syscall.h>

static void map_touch_unmap(unsigned times, size_t bytes)
{
	const size_t page = PAGE; /* in a register while it is counted */

	while (times--) {
		char *memory = pages(NULL, bytes);
		for (size_t at = 0; at < bytes; at += page)
			memory[at] = 1;
		munmap(memory, bytes);
	}
}

static void one_page(unsigned times)
{
	map_touch_unmap(times, PAGE);
}

static void many_pages(unsigned times)
{
	map_touch_unmap(times, 64 * PAGE);
}

static void protect_pair(unsigned times)
{
	char *memory = pages(NULL, PAGE);

	memory[0] = 1;
	while (times--) {
		mprotect(memory, PAGE, PROT_READ);
		mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
		memory[0]++;
	}
	munmap(memory, PAGE);
}

static void fork_exit(unsigned times)
{
	while (times--) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

static void vfork_exit(unsigned times)
{
	while (times--) {
		int child = vfork();
		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

/* The program is this one, which ends at once. */
static void exec_exit(unsigned times)
{
	while (times--) {
		int child = vfork();
		if (child == 0) {
			execl("/proc/self/exe", "init", "nothing", NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
}

/* Two processes on one CPU; each time a byte goes to the other and back, there are two switches. */
static void switches(unsigned times)
{
	int there[2], back[2];
	char byte = 0;

	must(pipe(there) == 0 && pipe(back) == 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		while (times--)
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				_exit(1);
		_exit(0);
	}
	while (times--)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			break;
	waitpid(child, NULL, 0);
	close(there[0]), close(there[1]), close(back[0]), close(back[1]);
}

static void very_many_pages(unsigned times)
{
	map_touch_unmap(times, 4096 * PAGE);
}

/* -- Single calls: what is counted is the difference of two of these, or one of them ---------------------------------- */

static char *prepared;
static char *areas[1000];

static void null_call(unsigned times)
{
	while (times--)
		syscall(SYS_getppid);
}

static void map_unmap(unsigned times)
{
	while (times--)
		munmap(pages(NULL, PAGE), PAGE);
}

/* Areas that Linux does not merge with their neighbours. */
static void map_each(unsigned times)
{
	while (times--)
		areas[times] = mmap(NULL, PAGE, times % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void unmap_each(unsigned times)
{
	while (times--)
		munmap(areas[times], PAGE);
}

static void map_absent(unsigned times)
{
	prepared = pages(NULL, times * PAGE);
	madvise(prepared, times * PAGE, MADV_NOHUGEPAGE);
}

static void map_present(unsigned times)
{
	map_absent(times);
	memset(prepared, 1, times * PAGE);
}

static void map_present_twice(unsigned times)
{
	map_present(2 * times + 1);
}

static void map_4096_present(unsigned times)
{
	(void)times;
	map_present(4096);
}

static void write_all(unsigned times)
{
	const size_t page = PAGE; /* in a register while it is counted */

	for (unsigned i = 0; i < times; i++)
		prepared[i * page] = 2;
}

/* A page that the next write copies: its child has it, too. */
static void share_with_child(unsigned times)
{
	map_present(times);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static void map_file(unsigned times)
{
	size_t bytes = times * PAGE;

	int file = memfd_create("prepared", 0);

	must(file >= 0 && ftruncate(file, bytes) == 0, "a file in memory");
	prepared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	must(prepared != MAP_FAILED, "mmap of a file");
	madvise(prepared, bytes, MADV_RANDOM); /* one page for each fault */
	char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must(shared != MAP_FAILED, "mmap of a file");
	memset(shared, 1, bytes);
}

static void read_all(unsigned times)
{
	const size_t page = PAGE;

	for (unsigned i = 0; i < times; i++)
		(void)((volatile char *)prepared)[i * page];
}

static void discard_each(unsigned times)
{
	const size_t page = PAGE;

	for (unsigned i = 0; i < times; i++)
		madvise(prepared + i * page, page, MADV_DONTNEED);
}

/* Each splits an area. */
static void unmap_every_other(unsigned times)
{
	const size_t page = PAGE;

	for (unsigned i = 0; i < times; i++)
		munmap(prepared + (2 * i + 1) * page, page);
}

static void unmap_all(unsigned times)
{
	munmap(prepared, times * PAGE);
}

static void discard_all(unsigned times)
{
	madvise(prepared, times * PAGE, MADV_DONTNEED);
}

static void page_out(unsigned times)
{
	madvise(prepared, times * PAGE, 21 /* MADV_PAGEOUT */);
}

static void protect_all(unsigned times)
{
	mprotect(prepared, times * PAGE, PROT_READ);
}

static void protect_middle(unsigned times)
{
	char *middle = prepared + PAGE;

	for (unsigned i = 0; i < (times + 1) / 2; i++) {
		mprotect(middle, PAGE, PROT_READ);
		mprotect(middle, PAGE, PROT_READ | PROT_WRITE);
	}
}

/* Reclaim, whose flushes are batches, and back from the swap device. */
static void swap_out(unsigned times)
{
	size_t bytes = 512 * PAGE;
	char *memory = pages(NULL, bytes);

	while (times--) {
		for (size_t at = 0; at < bytes; at += PAGE)
			memory[at]++;
		madvise(memory, bytes, 21 /* MADV_PAGEOUT */);
	}
	munmap(memory, bytes);
}

const struct work works[] = {
	{ "mmap, touch, munmap: 1 page", one_page, 1000, false, NULL },
	{ "mmap, touch, munmap: 64 pages", many_pages, 200, false, NULL },
	{ "mprotect, and back", protect_pair, 1000, false, NULL },
	{ "fork, exit", fork_exit, 100, false, NULL },
	{ "pipe there and back: 2 switches", switches, 2000, false, NULL },
	{ "1 page, beside a thread", one_page, 1000, true, NULL },
	{ "mprotect, beside a thread", protect_pair, 1000, true, NULL },
	{ NULL, NULL, 0, false, NULL },
};

const struct work single_calls[] = {
	{ "getppid", null_call, 1000, false, NULL },
	{ "mmap and munmap, of a page that is not touched", map_unmap, 1000, false, NULL },
	{ "mmap of an area", map_each, 1000, false, NULL },
	{ "munmap of an area that is not touched", unmap_each, 1000, false, map_each },
	{ "fault: first write, page of zeros", write_all, 512, false, map_absent },
	{ "read, by page of a file in memory (a fault maps 16)", read_all, 512, false, map_file },
	{ "fault: write that copies a page of a file", write_all, 512, false, map_file },
	{ "fault: write that copies a page after fork", write_all, 512, false, share_with_child },
	{ "munmap of a page in the middle of an area", unmap_every_other, 512, false, map_present_twice },
	{ "munmap, by page of an area", unmap_all, 512, false, map_present },
	{ "mprotect of a page in the middle", protect_middle, 512, false, map_present },
	{ "mprotect, by page of an area", protect_all, 512, false, map_present },
	{ "madvise(DONTNEED) of a page", discard_each, 512, false, map_present },
	{ "madvise(DONTNEED), by page of an area", discard_all, 512, false, map_present },
	{ "madvise(PAGEOUT), by page of an area", page_out, 512, false, map_present },
	{ "fork, exit and wait", fork_exit, 100, false, NULL },
	{ "fork, exit and wait, 4096 pages more", fork_exit, 100, false, map_4096_present },
	{ "vfork, exit and wait", vfork_exit, 100, false, NULL },
	{ "vfork, exec of a static program, exit and wait", exec_exit, 100, false, NULL },
	{ NULL, NULL, 0, false, NULL },
};

const struct work large_works[] = {
	{ "mmap, touch, munmap: 4096 pages", very_many_pages, 10, false, NULL },
	{ "swap-out: 512 pages", swap_out, 10, false, NULL },
	{ NULL, NULL, 0, false, NULL },
};
