/* Runs known numbers of instructions and prints the CPU time of each. A guest whose clock counts instructions must show
 * one nanosecond for each. Linked statically; prints lines of "known NAME INSTRUCTIONS NANOSECONDS". */
#include <stdio.h>
#include <time.h>

enum { LOOPS = 10 * 1000 * 1000, COPY_BYTES = 16 * 1024 * 1024 };

static unsigned char from[COPY_BYTES], to[COPY_BYTES];

static long long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void plain(void) {
    long count = LOOPS;
    __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(count) : : "cc");
}

static void aes(void) {
    long count = LOOPS;
    __asm__ volatile("1: aesenc %%xmm1, %%xmm0\n aesenc %%xmm1, %%xmm0\n dec %0\n jnz 1b"
                     : "+r"(count) : : "cc", "xmm0", "xmm1");
}

static void string(void) {
    void *destination = to, *source = from;
    long count = COPY_BYTES;
    __asm__ volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(count) : : "memory");
}

static void report(const char *name, void (*run)(void), long instructions) {
    run(); /* once before, so that no page is touched for the first time */
    long long begin = cpu_ns();
    run();
    printf("known %s %ld %lld\n", name, instructions, cpu_ns() - begin);
}

int main(void) {
    report("plain", plain, 2L * LOOPS);
    report("aes", aes, 4L * LOOPS);
    report("string_bytes", string, COPY_BYTES);
    return 0;
}
