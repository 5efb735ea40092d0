// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Runs programs of others, Linux's own tests for example: those in /runs/list, one in a line with its arguments, after the number of
 * huge pages that it is given. What they print goes to the console between `RUN` and `RAN` lines; xtask judges it.
 */
#include "programs.h"

#include <poll.h>

#define ARGUMENTS 32 /* and with what stress-ng is given */
#define IDLE_SECONDS 90 /* without a line, and without a CPU that does anything: it hangs */
#define MOST_SECONDS 900 /* of one program, whatever it does */

/* What each run of stress-ng is given beside its line. With names of their own, `lookaside_drop` would not know its processes. */
static char *const stress_options[] = { "--keep-name", "--no-rand-seed", "--metrics-brief", "--verify" };

/* Time that all CPUs have spent in programs and for them, in ticks: user, nice, system. */
static unsigned long worked(void)
{
	unsigned long user = 0, nice = 0, system = 0;
	FILE *file = fopen("/proc/stat", "r");

	if (file) {
		if (fscanf(file, "cpu %lu %lu %lu", &user, &nice, &system) != 3)
			user = 0;
		fclose(file);
	}
	return user + nice + system;
}

/* Passes on what the program prints, until nobody holds the pipe or the program has ended; false if it hangs. */
static bool follow(int output, pid_t program, int *status)
{
	char text[4096];
	unsigned idle = 0, seconds = 0;
	unsigned long before = worked();
	struct pollfd ready = { .fd = output, .events = POLLIN };

	for (;;) {
		bool ended = waitpid(program, status, WNOHANG) == program;
		/* What is left in the pipe, after its end, without the wait. */
		while (poll(&ready, 1, ended ? 0 : 1000) > 0) {
			ssize_t bytes = read(output, text, sizeof(text));
			if (bytes <= 0)
				break;
			must(write(1, text, bytes) == bytes, "the console");
			idle = 0;
			if (!ended)
				ended = waitpid(program, status, WNOHANG) == program;
		}
		if (ended)
			return true;
		/* The end of the pipe before that of the program is no reason to look all the time. */
		if (ready.revents & POLLHUP)
			sleep(1);
		unsigned long now = worked();
		idle = now > before + 10 ? 0 : idle + 1;
		before = now;
		if (idle > IDLE_SECONDS || ++seconds > MOST_SECONDS)
			return false;
	}
}

static void run(char *line, bool hunted)
{
	char *argument[ARGUMENTS + 1] = { NULL }, path[128], whole[256], value[16];
	int output[2], status = 0, count = 0;

	snprintf(whole, sizeof(whole), "%s", line + strcspn(line, " ") + 1);
	snprintf(value, sizeof(value), "%d", atoi(strtok(line, " ")));
	while (count < ARGUMENTS - 4 && (argument[count] = strtok(NULL, " ")) != NULL)
		count++;
	if (count == 0)
		return;
	if (!strcmp(argument[0], "stress-ng"))
		memcpy(argument + count, stress_options, sizeof(stress_options));
	/* Memory that the one before has left in pieces would be no huge page. */
	write_file("/proc/sys/vm/drop_caches", "3");
	write_file("/proc/sys/vm/compact_memory", "1");
	write_file("/proc/sys/vm/nr_hugepages", value);
	printf("RUN %s\n", whole);
	fflush(stdout);
	must(pipe(output) == 0, "pipe");
	pid_t program = fork();
	must(program >= 0, "fork");
	if (program == 0) {
		setsid();
		dup2(output[1], 1), dup2(output[1], 2);
		close(output[0]), close(output[1]);
		must(chdir("/tmp") == 0, "/tmp");
		/* The name of the task is the last part of the path: `lookaside_drop` is for those that begin so. */
		snprintf(path, sizeof(path), hunted ? "/runs/hunter.%s" : "/runs/%s", argument[0]);
		if (hunted)
			must(symlink(argument[0], path) == 0, "symlink");
		execv(path, argument);
		must(false, path);
	}
	close(output[1]);
	bool ended = follow(output[0], program, &status);
	kill(-program, SIGKILL);
	if (!ended)
		waitpid(program, NULL, 0);
	close(output[0]);
	printf(!ended ? "\nRAN hang %d %s\n" : WIFSIGNALED(status) ? "\nRAN signal %d %s\n" : "\nRAN exit %d %s\n",
	       !ended ? 0 : WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), whole);
	fflush(stdout);
	/* Those that were left without a parent. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

void runs(char *only, bool hunted)
{
	char line[256];
	FILE *list = fopen("/runs/list", "r");

	must(list != NULL, "/runs/list");
	for (char *comma = only; comma && (comma = strchr(comma, ',')) != NULL;)
		*comma = ' ';
	mkdir("/tmp", 01777), mkdir("/dev/shm", 01777);
	mount("tmp", "/tmp", "tmpfs", 0, NULL);
	mount("shm", "/dev/shm", "tmpfs", 0, NULL);
	mount("debug", "/sys/kernel/debug", "debugfs", 0, NULL);
	/* Two of Linux's tests use System V's shared memory. */
	write_file("/proc/sys/kernel/shmmax", "4294967296");
	write_file("/proc/sys/kernel/shmall", "4194304");
	while (fgets(line, sizeof(line), list)) {
		char *program = line + strcspn(line, " ") + 1;

		line[strcspn(line, "\n")] = '\0';
		if (!only || !strcmp(program, only))
			run(line, hunted);
	}
	fclose(list);
}
