/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The programs that run on the booted Linux: one static executable, which is its init. It prints `PASS name` and `FAIL name: why`
 * lines, and `COUNT` lines for the table.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* What Linux was built with: a table is one page of entries of eight bytes. */
extern size_t page_size;
#define PAGE page_size
#define HUGE_PAGE (page_size / 8 * page_size)

typedef volatile uint64_t word;

/* A hunter returns how many revokes it has seen take effect, and `stale` how many had none; it runs in a process of its own. */
struct hunter {
	const char *name;
	uint64_t (*run)(uint64_t rounds, uint64_t *stale);
	uint64_t rounds;
	bool once; /* not again as a program of 32 bits or at high addresses, and with pages of 4 KiB alone */
};
extern const struct hunter hunters[];

/* Work that is counted: `times` operations on one CPU. */
struct work {
	const char *name;
	void (*run)(unsigned times);
	unsigned times;
	bool beside; /* while another thread of the process spins on another CPU */
	void (*prepare)(unsigned times); /* before what is counted; or none */
};
extern const struct work works[];
/* What one call or one fault takes. */
extern const struct work single_calls[];
/* Of many pages: they are traced and not counted. */
extern const struct work large_works[];

/* Programs of others, in /runs: all of the list, or the run that is named, with commas for its spaces. */
void runs(char *only, bool hunted);

/* Parts of Linux that most kernels are built without. What is between the two of EFI runs beside its calls. */
void modules(unsigned less);
void pins(unsigned less);
void compat(unsigned less, const char *only);
void suspend(unsigned less);
void kexec(void); /* does not return */
void efi_begin(void);
void efi_end(void);

void pin(unsigned cpu);
unsigned cpus(void);
void relax(void); /* in a loop that waits for another thread: which needs this CPU, if there is one alone */
void *pages(void *at, size_t bytes);
void must(bool is_true, const char *what);
bool write_file(const char *path, const char *text);

#endif
