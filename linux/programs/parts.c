// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests of parts of Linux that most kernels are built without: modules, pinned ASIDs, programs of 32 bits, suspend to idle, kexec, runtime
 * calls of EFI. Where the kernel has no such part, they fail.
 */
#include "programs.h"

#include <inttypes.h>
#include <linux/rtc.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* -- Modules --------------------------------------------------------------------------------------------------------- */

#define PARAMETERS "/sys/module/lookaside_hunter/parameters/"

static uint64_t parameter(const char *name)
{
	char path[128], text[32] = "";

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	int file = open(path, O_RDONLY);
	must(file >= 0 && read(file, text, sizeof(text) - 1) > 0, path);
	close(file);
	return strtoull(text, NULL, 0);
}

static void load(const char *parameters)
{
	int file = open("/lookaside_hunter.ko", O_RDONLY);

	must(file >= 0 && syscall(SYS_finit_module, file, parameters, 0) == 0, "module: loading it");
	close(file);
}

static void unload(void)
{
	must(syscall(SYS_delete_module, "lookaside_hunter", 0) == 0, "module: unloading it");
}

/* Loaded several times: its memory was another's before. */
void modules(unsigned less)
{
	uint64_t revokes = 0, stale = 0;
	char text[32];

	snprintf(text, sizeof(text), "rounds=%u", 2000 / less + 1);
	for (int again = 0; again < 5; again++) {
		load(text);
		revokes += parameter("revokes");
		stale += parameter("stale");
		unload();
	}
	if (stale)
		printf("FAIL module: %" PRIu64 " stale, %" PRIu64 " revokes seen\n", stale, revokes);
	else
		printf("PASS module: %" PRIu64 " revokes seen\n", revokes);
	fflush(stdout);
}

/* -- Pinned ASIDs ---------------------------------------------------------------------------------------------------- */

#define SLEEPERS 9 /* the first one's ASID is pinned */

/* Says which ASID it has, sleeps, and says it once more. */
static pid_t sleeper(bool pins, int wake, int answer)
{
	pid_t child = fork();

	must(child >= 0, "pins: fork");
	if (child != 0)
		return child;
	if (pins)
		load("pins=1");
	uint64_t asid[2] = { parameter("loaded"), 0 };
	char byte;
	must(!pins || parameter("asid") == asid[0], "pins: the ASID in the register is the pinned one");
	must(write(answer, asid, sizeof(asid)) == sizeof(asid), "pins: a pipe");
	must(read(wake, &byte, 1) == 1, "pins: a pipe");
	asid[1] = parameter("loaded");
	must(write(answer, asid, sizeof(asid)) == sizeof(asid), "pins: a pipe");
	if (pins)
		unload();
	_exit(0);
}

/* Processes come and go until ASIDs have run out several times, if there are few: an ASID that is pinned stays, others need not. */
void pins(unsigned less)
{
	int wake[SLEEPERS][2], answer[SLEEPERS][2], changed = 0;
	pid_t sleepers[SLEEPERS];
	uint64_t asid[2];

	for (int i = 0; i < SLEEPERS; i++) {
		must(pipe(wake[i]) == 0 && pipe(answer[i]) == 0, "pins: pipe");
		sleepers[i] = sleeper(i == 0, wake[i][0], answer[i][1]);
		must(read(answer[i][0], asid, sizeof(asid)) == sizeof(asid), "pins: a sleeper");
	}
	for (unsigned i = 0; i < 20000 / less + 100; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	/* The one with the module is the last to end. */
	for (int i = SLEEPERS - 1; i >= 0; i--) {
		must(write(wake[i][1], "", 1) == 1, "pins: a pipe");
		must(read(answer[i][0], asid, sizeof(asid)) == sizeof(asid), "pins: a sleeper");
		if (i > 0)
			changed += asid[0] != asid[1];
		waitpid(sleepers[i], NULL, 0);
	}
	printf("%s pins: ASID %" PRIu64 " is %" PRIu64 " afterwards; of %d others %d changed\n",
	       asid[0] == asid[1] ? "PASS" : "FAIL", asid[0], asid[1], SLEEPERS - 1, changed);
	fflush(stdout);
}

/* -- Programs of 32 bits: all hunters once more ---------------------------------------------------------------------- */

void compat(unsigned less, const char *only)
{
	char text[32], names[256] = "";
	int status;
	pid_t child = fork();

	snprintf(text, sizeof(text), "less=%u", less);
	if (only)
		snprintf(names, sizeof(names), "only=%s", only);
	if (child == 0) {
		execl("/init32", "init32", "hunters", text, only ? names : NULL, NULL);
		must(false, "32-bit: /init32");
	}
	must(child > 0 && waitpid(child, &status, 0) == child, "32-bit: waitpid");
	printf(status == 0 ? "PASS 32-bit: came to its end\n" : "FAIL 32-bit: status %x\n", status);
	fflush(stdout);
}

/* -- Clocks ---------------------------------------------------------------------------------------------------------- */

/* The number of the clock that a driver of this name serves. */
static int clock_of(const char *driver)
{
	char path[64], name[256];

	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/sys/class/rtc/rtc%d/device/driver", i);
		ssize_t length = readlink(path, name, sizeof(name) - 1);
		if (length > 0 && (name[length] = 0, strstr(name, driver)))
			return i;
	}
	return -1;
}

/* -- Suspend to idle: all CPUs idle until the clock's alarm ----------------------------------------------------------- */

void suspend(unsigned less)
{
	char path[64];
	unsigned times = 20 / less + 2, done = 0;

	snprintf(path, sizeof(path), "/sys/class/rtc/rtc%d/wakealarm", clock_of("pl031"));
	while (done < times && write_file(path, "+2") && write_file("/sys/power/state", "freeze"))
		done++;
	printf("%s suspend: to idle and back %u times of %u\n", done == times ? "PASS" : "FAIL", done, times);
	fflush(stdout);
}

/* -- kexec: the kernel that runs next is this one, and its tests are the same ----------------------------------------- */

void kexec(void)
{
	char words[2048] = "", *word;
	int line = open("/proc/cmdline", O_RDONLY), image = open("/image", O_RDONLY), files = open("/initramfs", O_RDONLY);

	must(line >= 0 && read(line, words, sizeof(words) - 1) > 0, "kexec: the command line");
	word = strstr(words, " kexec");
	must(word && image >= 0 && files >= 0, "kexec: what is booted");
	memcpy(word, " again", 6);
	words[strcspn(words, "\n")] = 0;
	must(syscall(SYS_kexec_file_load, image, files, strlen(words) + 1, words, 0) == 0, "kexec: loading it");
	printf("KEXEC\n");
	fflush(stdout);
	tcdrain(1);
	reboot(0x45584543 /* LINUX_REBOOT_CMD_KEXEC */);
	must(false, "kexec");
}

/* -- Runtime calls of EFI, beside all other tests -------------------------------------------------------------------- */

#define VARIABLES "/sys/firmware/efi/efivars"
#define VARIABLE VARIABLES "/Lookaside-5f8f7d5c-6d0e-4c53-9e53-0c7b2c5a91d4"

static struct {
	_Atomic uint64_t variables, times, wrong;
} *calls;
static pid_t caller;

/* Of a kernel before this one (kexec) the variable is there still, and Linux has made it immutable. */
static int open_variable(void)
{
	int old = open(VARIABLE, O_RDONLY), none = 0;

	if (old >= 0) {
		ioctl(old, _IOW('f', 2, long) /* FS_IOC_SETFLAGS */, &none);
		close(old);
	}
	return open(VARIABLE, O_RDWR | O_CREAT, 0600);
}

/* Stores and loads a variable, whose value is this round's. */
static void use_variable(int file, uint64_t value)
{
	struct {
		uint32_t attributes;
		uint64_t value;
	} __attribute__((packed)) written = { 7, value }, found = { 0, 0 };

	if (write(file, &written, sizeof(written)) != sizeof(written) ||
	    pread(file, &found, sizeof(found), 0) != sizeof(found) || memcmp(&written, &found, sizeof(found)))
		atomic_fetch_add(&calls->wrong, 1);
	else
		atomic_fetch_add(&calls->variables, 1);
}

static void ask_time(int clock)
{
	struct rtc_time time;

	if (ioctl(clock, RTC_RD_TIME, &time) != 0 || time.tm_year < 100)
		atomic_fetch_add(&calls->wrong, 1);
	else
		atomic_fetch_add(&calls->times, 1);
}

/* Of each CPU in turn, in a process of its own until it is killed: the firmware's variables are read back, and its clock is asked. */
void efi_begin(void)
{
	calls = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(mount("efivarfs", VARIABLES, "efivarfs", 0, NULL) == 0, "efi: efivarfs");
	caller = fork();
	must(caller >= 0, "efi: fork");
	if (caller != 0)
		return;
	char device[32];
	snprintf(device, sizeof(device), "/dev/rtc%d", clock_of("rtc-efi"));
	int file = open_variable(), clock = open(device, O_RDONLY);
	if (file < 0 || clock < 0)
		atomic_fetch_add(&calls->wrong, 1);
	for (uint64_t i = 1;; i++) {
		pin(i % cpus());
		use_variable(file, i);
		ask_time(clock);
		usleep(2000);
	}
}

void efi_end(void)
{
	while (calls->variables + calls->times < 20 && !calls->wrong)
		usleep(1000);
	kill(caller, SIGKILL);
	waitpid(caller, NULL, 0);
	printf("%s efi: %" PRIu64 " variables stored and loaded, %" PRIu64 " times, %" PRIu64 " wrong\n",
	       calls->wrong ? "FAIL" : "PASS", calls->variables, calls->times, calls->wrong);
	fflush(stdout);
}
