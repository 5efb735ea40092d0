// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What is counted: operations on one CPU that change page tables or switch address spaces, between two marks for the plugin.
 */
#include "programs.h"

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
	{ "mmap, touch, munmap: 1 page", one_page, 1000, false },
	{ "mmap, touch, munmap: 64 pages", many_pages, 200, false },
	{ "mprotect, and back", protect_pair, 1000, false },
	{ "fork, exit", fork_exit, 100, false },
	{ "pipe there and back: 2 switches", switches, 2000, false },
	{ "1 page, beside a thread", one_page, 1000, true },
	{ "mprotect, beside a thread", protect_pair, 1000, true },
	{ NULL, NULL, 0, false },
};

const struct work large_works[] = {
	{ "mmap, touch, munmap: 4096 pages", very_many_pages, 10, false },
	{ "swap-out: 512 pages", swap_out, 10, false },
	{ NULL, NULL, 0, false },
};
