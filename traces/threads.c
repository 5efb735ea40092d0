/* Four threads that change their pages all the time: see README.md. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096L
#define PAGES (64 * PAGE)

static long rounds = 1000;

static char *pages(void)
{
	return mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *work(void *unused)
{
	char *p = pages();

	for (long i = 0; i < rounds; i++) {
		memset(p, (int)i, 16 * PAGE);
		mprotect(p, 16 * PAGE, PROT_READ);
		mprotect(p, 16 * PAGE, PROT_READ | PROT_WRITE);
		madvise(p + 20 * PAGE, 8 * PAGE, MADV_DONTNEED);
		p[21 * PAGE] = 1;
		if (i % 16 == 0) {
			munmap(p, PAGES);
			p = pages();
		}
	}
	return unused;
}

int main(int count, char **words)
{
	pthread_t threads[4];

	if (count > 1)
		rounds = atol(words[1]);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
