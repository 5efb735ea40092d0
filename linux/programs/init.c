// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The first process. The kernel's command line says what it does: `tests`, `works`, `runs` of others' programs, or works with
 * `irqs-off`; with `only=` those that are named, with `alone` no works beside a thread. With `modules`, `sva`, `compat`, `va52`,
 * `suspend`, `kexec` and `efi` the tests have those of such a part. As a program of 32 bits it is not the first, and does what `hunters` says.
 */
#include "programs.h"

#include <inttypes.h>

size_t page_size;

void must(bool is_true, const char *what)
{
	if (is_true)
		return;
	printf("FAIL %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(2);
}

void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* a CPU that is down: we run elsewhere */
}

unsigned cpus(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

void relax(void)
{
	static unsigned count;

	if (!count)
		count = cpus();
	if (count == 1)
		sched_yield();
}

/* Where pages are looked for; 0: where Linux likes, below 48 bits. */
static uintptr_t hint;

void *pages(void *at, size_t bytes)
{
	void *memory = mmap(at ? at : (void *)hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	must(memory != MAP_FAILED, "mmap");
	return memory;
}

bool write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

	if (file >= 0)
		close(file);
	return written;
}

static void mounts(void)
{
	mkdir("/dev", 0755), mkdir("/proc", 0755), mkdir("/sys", 0755);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sys", "/sys", "sysfs", 0, NULL);
}

/* -- A swap device in memory: its first page says what it is --------------------------------------------------------- */

static void swap_on(void)
{
	uint32_t version_and_last_page[2] = { 1, (64 << 20) / PAGE - 1 };
	char *header = pages(NULL, PAGE);

	memcpy(header + 1024, version_and_last_page, sizeof(version_and_last_page));
	memcpy(header + PAGE - 10, "SWAPSPACE2", 10);
	int device = open("/dev/ram0", O_RDWR);

	must(device >= 0, "/dev/ram0");
	must(write(device, header, PAGE) == (ssize_t)PAGE, "the swap header");
	fsync(device);
	close(device);
	must(swapon("/dev/ram0", 0) == 0, "swapon");
}

/* -- Tests ----------------------------------------------------------------------------------------------------------- */

#define ROUNDS 2000 /* of one process */

/* In several processes, so that a long run says in between that it goes on. */
static void hunt(const struct hunter *hunter, unsigned less, const char *where)
{
	uint64_t *result = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;

	for (uint64_t left = hunter->rounds / less + 1; left > 0 && status == 0 && result[1] == 0;) {
		uint64_t rounds = left < ROUNDS ? left : ROUNDS;
		pid_t child = fork();

		if (child == 0) {
			uint64_t stale = 0;
			prctl(PR_SET_NAME, "hunter");
			alarm(500);
			result[0] += hunter->run(rounds, &stale);
			result[1] += stale;
			_exit(0);
		}
		waitpid(child, &status, 0);
		left -= rounds;
		if (left > 0) {
			printf("HUNT %s%s: %" PRIu64 " revokes seen\n", where, hunter->name, result[0]);
			fflush(stdout);
		}
	}
	if (WIFSIGNALED(status))
		printf("FAIL %s%s: ended by signal %d\n", where, hunter->name, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		printf("FAIL %s%s: ended with %d\n", where, hunter->name, WEXITSTATUS(status));
	else if (result[1] != 0)
		printf("FAIL %s%s: %" PRIu64 " stale, %" PRIu64 " revokes seen\n", where, hunter->name, result[1], result[0]);
	else
		printf("PASS %s%s: %" PRIu64 " revokes seen\n", where, hunter->name, result[0]);
	fflush(stdout);
	munmap(result, PAGE);
}

static void hunt_all(unsigned less, const char *only, const char *where)
{
	for (const struct hunter *hunter = hunters; hunter->name; hunter++)
		if ((!only || strstr(only, hunter->name)) && !(hunter->once && (*where || PAGE != 4096)))
			hunt(hunter, less, where);
}

/* Linux gives out addresses above 48 bits if it is asked for one there. */
static void high_addresses(unsigned less, const char *only)
{
	hint = (uintptr_t)(1ull << 51);
	void *high = pages(NULL, PAGE);
	if ((uintptr_t)high >> 24 >> 24)
		hunt_all(less, only, "high ");
	else
		printf("FAIL high: %p is no address of more than 48 bits\n", high);
	hint = 0;
}

/* Since the kernel was booted. */
static unsigned seconds(void)
{
	struct timespec now;

	must(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
	return now.tv_sec;
}

/* All CPUs but the first go down and come up, while a child makes address spaces. */
/* Processes come and go, and kernel addresses are flushed, which CPUs that come up take part in from their first moments. */
static void hotplug(unsigned times)
{
	pid_t storm = fork(), flushes;
	bool failed = false;
	char path[64];

	if (storm == 0)
		for (;;) {
			pid_t child = fork();
			if (child == 0) {
				works[0].run(20);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
	flushes = fork();
	if (flushes == 0) {
		int counts = open("/proc/lookaside", O_WRONLY);
		while (write(counts, "flush", 5) == 5)
			;
		_exit(0);
	}
	for (unsigned i = 0; i < times && !failed; i++)
		for (int up = 0; up < 2; up++)
			for (unsigned cpu = 1; cpu < cpus(); cpu++) {
				sprintf(path, "/sys/devices/system/cpu/cpu%u/online", cpu);
				failed |= !write_file(path, up ? "1" : "0");
			}
	kill(storm, SIGKILL);
	kill(flushes, SIGKILL);
	waitpid(storm, NULL, 0);
	waitpid(flushes, NULL, 0);
	printf(failed ? "FAIL hotplug: %s\n" : "PASS hotplug: %s\n", failed ? path : "all CPUs but the first, down and up");
	fflush(stdout);
}

/* -- Counts ---------------------------------------------------------------------------------------------------------- */

/* An instruction that does nothing and that the plugin knows. */
#if defined(__aarch64__)
#define MARK(number) asm volatile("movk xzr, %0" ::"i"(number) : "memory")
#elif defined(__riscv)
#define MARK(number) asm volatile("lui x0, %0" ::"i"(number) : "memory")
#elif defined(__x86_64__)
#define MARK(number) asm volatile("nopl %c0(%%rax)" ::"i"(number) : "memory")
#else
#define MARK(number) ((void)0) /* compiled only to be checked */
#endif
#define BEGIN 0x4c01
#define END 0x4c02

/* Of all CPUs. */
static uint64_t interrupts(void)
{
	char line[512];
	uint64_t sum = 0;
	FILE *file = fopen("/proc/interrupts", "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "Function call") && !strstr(line, "IRQ work"))
			continue;
		char *at = strchr(line, ':') + 1;
		for (unsigned cpu = 0; cpu < cpus(); cpu++)
			sum += strtoul(at, &at, 10);
	}
	if (file)
		fclose(file);
	return sum;
}

static _Atomic bool work_over;

static void *spins(void *unused)
{
	(void)unused;
	pin(2 % cpus());
	while (!atomic_load(&work_over))
		;
	return NULL;
}

static void count(const struct work *work)
{
	pid_t child = fork();
	pthread_t thread;

	if (child != 0) {
		waitpid(child, NULL, 0);
		return;
	}
	pin(1 % cpus());
	if (work->beside)
		must(pthread_create(&thread, NULL, spins, NULL) == 0, "pthread_create");
	usleep(50000);
	if (work->prepare)
		work->prepare(work->times / 10 + 1);
	work->run(work->times / 10 + 1);
	if (work->prepare)
		work->prepare(work->times);
	uint64_t before = interrupts();
	MARK(BEGIN);
	work->run(work->times);
	MARK(END);
	printf("COUNT %u %" PRIu64 " %s\n", work->times, interrupts() - before, work->name);
	fflush(stdout);
	atomic_store(&work_over, true);
	_exit(0);
}

/* -- Time with interrupts off --------------------------------------------------------------------------------------- */

#define TRACING "/sys/kernel/tracing/"

static unsigned long longest(void)
{
	char text[32] = "";
	int file = open(TRACING "tracing_max_latency", O_RDONLY);

	must(file >= 0 && read(file, text, sizeof(text) - 1) > 0, "tracing_max_latency");
	close(file);
	return strtoul(text, NULL, 10);
}

/* Where it began and ended, and who called there, for who reads the console. */
static void where(void)
{
	char line[256];
	FILE *file = fopen(TRACING "trace", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, " => ") && !strchr(line, '|'))
			printf("WHERE %s", strstr(line, " => ") + 4);
	if (file)
		fclose(file);
}

/* The longest time with interrupts off while the work is done, by Linux's tracer, in microseconds. Of one CPU: where several take
 * turns, the turn of another would be counted. So there is no work beside a thread. */
static void trace(const struct work *work)
{
	pid_t child = work->beside ? -1 : fork();

	if (child != 0) {
		waitpid(child, NULL, 0);
		return;
	}
	usleep(50000);
	work->run(work->times / 10 + 1);
	must(write_file(TRACING "tracing_max_latency", "0"), "tracing_max_latency");
	work->run(work->times);
	printf("LONGEST %lu %s\n", longest(), work->name);
	where();
	fflush(stdout);
	_exit(0);
}

static void traces(void)
{
	mount("trace", TRACING, "tracefs", 0, NULL);
	must(write_file(TRACING "current_tracer", "irqsoff"), "the tracer irqsoff");
	must(write_file(TRACING "tracing_thresh", "0"), "tracing_thresh");
	for (int again = 0; again < 3; again++) {
		for (const struct work *work = works; work->name; work++)
			trace(work);
		for (const struct work *work = large_works; work->name; work++)
			trace(work);
	}
	write_file(TRACING "current_tracer", "nop");
}

int main(int arguments, char **argument)
{
	bool tests = false, counted = false, calls = false, alone = false, others = false, hunted = false, traced = false;
	bool module = false, sva = false, compatible = false, high = false, efi = false, is_32 = false;
	bool suspended = false, next = false, again = false;
	unsigned less = 1, soak = 0;
	char *only = NULL;

	if (arguments > 1 && !strcmp(argument[1], "nothing"))
		return 0;
	page_size = sysconf(_SC_PAGESIZE);
	for (int i = 1; i < arguments; i++) {
		is_32 |= !strcmp(argument[i], "hunters");
		if (!strncmp(argument[i], "less=", 5))
			less = atoi(argument[i] + 5);
		if (!strncmp(argument[i], "soak=", 5))
			soak = atoi(argument[i] + 5);
		if (!strncmp(argument[i], "only=", 5))
			only = argument[i] + 5;
	}
	if (is_32) {
		hunt_all(less, only, "32-bit ");
		return 0;
	}
	mounts();
	int console = open("/dev/console", O_RDWR);
	dup2(console, 0), dup2(console, 1), dup2(console, 2);
	for (int i = 1; i < arguments; i++) {
		tests |= !strcmp(argument[i], "tests");
		counted |= !strcmp(argument[i], "works");
		calls |= !strcmp(argument[i], "calls");
		alone |= !strcmp(argument[i], "alone");
		others |= !strcmp(argument[i], "runs");
		traced |= !strcmp(argument[i], "irqs-off");
		hunted |= !strcmp(argument[i], "hunted");
		module |= !strcmp(argument[i], "modules");
		sva |= !strcmp(argument[i], "sva");
		compatible |= !strcmp(argument[i], "compat");
		high |= !strcmp(argument[i], "va52");
		efi |= !strcmp(argument[i], "efi");
		suspended |= !strcmp(argument[i], "suspend");
		next |= !strcmp(argument[i], "kexec");
		again |= !strcmp(argument[i], "again");
	}
	if (!calls || access("/dev/ram0", F_OK) == 0) /* a kernel that others have built may have no such device */
		swap_on();
	printf("PASS boot: %u CPUs\n", cpus());
	if (others)
		runs(only, hunted);
	if (traced)
		traces();
	for (const struct work *work = works; counted && work->name; work++)
		if (!alone || !work->beside)
			count(work);
	for (const struct work *work = single_calls; calls && work->name; work++)
		count(work);
	efi &= tests && !only;
	if (efi)
		efi_begin();
	if (tests)
		hunt_all(less, only, "");
	if (tests && module && (!only || strstr(only, "module")))
		modules(less);
	if (tests && sva && !only)
		pins(less);
	if (tests && compatible)
		compat(less, only);
	if (tests && high)
		high_addresses(less, only);
	if (tests && (!only || strstr(only, "hotplug")) && cpus() > 1)
		hotplug(less == 1 ? 10 : 2);
	for (unsigned round = 2; tests && seconds() < 60 * soak; round++) {
		printf("ROUND %u: %u s\n", round, seconds());
		hunt_all(less, only, "");
		if (!only && cpus() > 1)
			hotplug(2);
	}
	if (tests && suspended && !only)
		suspend(less);
	if (efi)
		efi_end();
	if (again)
		printf("PASS kexec: the tests once more\n");
	fflush(stdout);
	static char text[4096];
	int file = open("/proc/lookaside", O_RDONLY);
	if (file >= 0 && read(file, text, sizeof(text) - 1) > 0)
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			printf("LOOKASIDE %s\n", line);
	if (tests && next && !only)
		kexec();
	printf("DONE\n");
	fflush(stdout);
	tcdrain(1); /* a reset does not wait for what a slow console still holds */
	/* A PC without ACPI cannot be switched off, and the emulator ends at a reset, too. */
#if defined(__x86_64__)
	reboot(RB_AUTOBOOT);
#endif
	reboot(RB_POWER_OFF);
	return 0;
}
