// Delays at random, for a program that this is preloaded into: Swift's tasks before they are run, and the calls below.
//
// A busy machine stops any thread anywhere, and so rarely that a test which takes an order or a time for granted passes for weeks. Here it does so all the time:
// most delays are short, some are as long as DELAYS_MS.
//
//   DELAYS_SEED  which delays; each thread has numbers of its own
//   DELAYS_SHARE how many of a thousand tasks are delayed (2)
//   DELAYS_MS    the longest delay in milliseconds (300)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static double share = 0.002;
static long most_us = 300000;
static uint64_t seed;
static uint64_t threads;
static __thread uint64_t state;

/// From 0 up to 1 (Marsaglia's xorshift).
static double next(void) {
    if (state == 0) state = (seed + 1) * 0x9E3779B97F4A7C15u ^ __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) * 0xD1B54A32D192ED03u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / (double)(1ull << 53);
}

static void stop(void) {
    double part = next();
    long us = (long)(part * part * part * (double)most_us);
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    int error = errno;
    nanosleep(&time, NULL);
    errno = error;
}

static void delay(double factor) {
    if (next() < share * factor) stop();
}

// Swift calls what `swift_task_enqueueGlobal_hook` points to, if anything, with each task that is to run; two pointers are passed as C passes them.
typedef void (*Enqueue)(void *job);
typedef struct {
    void *job;
    Enqueue enqueue;
} Late;

static void *run_late(void *argument) {
    Late late = *(Late *)argument;
    free(argument);
    stop();
    late.enqueue(late.job);
    return NULL;
}

static void enqueue(void *job, Enqueue original) {
    Late *late = next() < share ? malloc(sizeof *late) : NULL;
    if (late) {
        *late = (Late){job, original};
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_late, late) == 0) {
            pthread_detach(thread);
            return;
        }
        free(late);
    }
    original(job);
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("DELAYS_SEED");
    if (text) seed = strtoull(text, NULL, 10);
    if ((text = getenv("DELAYS_SHARE"))) share = strtod(text, NULL) / 1000;
    if ((text = getenv("DELAYS_MS"))) most_us = strtol(text, NULL, 10) * 1000;
    void **hook = dlsym(RTLD_DEFAULT, "swift_task_enqueueGlobal_hook");
    if (hook) *hook = (void *)enqueue;
}

#define NEXT(name)                                  \
    static __typeof__(&name) real;                  \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fdatasync(int file) {
    NEXT(fdatasync);
    delay(10);
    int result = real(file);
    delay(10);
    return result;
}

int fsync(int file) {
    NEXT(fsync);
    delay(10);
    return real(file);
}

ssize_t write(int file, const void *bytes, size_t count) {
    NEXT(write);
    delay(2);
    return real(file, bytes, count);
}

int epoll_wait(int poll, struct epoll_event *events, int count, int timeout) {
    NEXT(epoll_wait);
    int result = real(poll, events, count, timeout);
    delay(5);
    return result;
}

// Most of all calls.
int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    NEXT(pthread_mutex_unlock);
    int result = real(mutex);
    delay(0.05);
    return result;
}
