/* Records what a process writes to some files, in order, so that a test can tell what a power cut would have left.
 *
 * Preloaded into a worker. POWERLOG names the log, POWERLOG_MATCH a part of the paths that count. Each record is four
 * 64-bit numbers (kind, path length, offset, data length), the path, the data. Kinds: W write, S sync, T truncate to
 * offset, R rename (the data is the new path), U unlink.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int log_fd(void) {
    static int fd = -2;
    if (fd == -2) {
        const char *path = getenv("POWERLOG");
        fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    }
    return fd;
}

static void record(char kind, const char *path, uint64_t offset, const void *data, uint64_t size) {
    const char *match = getenv("POWERLOG_MATCH");
    if (log_fd() < 0 || !match || !strstr(path, match)) return;
    uint64_t head[4] = {(uint64_t)kind, strlen(path), offset, size};
    size_t total = sizeof head + head[1] + size;
    char *whole = malloc(total);
    if (!whole) abort();
    memcpy(whole, head, sizeof head);
    memcpy(whole + sizeof head, path, head[1]);
    if (size) memcpy(whole + sizeof head + head[1], data, size);
    if (syscall(SYS_write, log_fd(), whole, total) != (long)total) abort();
    free(whole);
}

static void record_fd(char kind, int fd, uint64_t offset, const void *data, uint64_t size) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    record(kind, path, offset, data, size);
}

#define REAL(name, type) static __typeof__((type)0) real; if (!real) real = (type)dlsym(RTLD_NEXT, name)

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t));
    ssize_t done = real(fd, data, size, offset);
    if (done > 0) record_fd('W', fd, (uint64_t)offset, data, (uint64_t)done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

ssize_t write(int fd, const void *data, size_t size) {
    REAL("write", ssize_t (*)(int, const void *, size_t));
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = real(fd, data, size);
    if (done > 0) record_fd('W', fd, (uint64_t)(offset < 0 ? 0 : offset), data, (uint64_t)done);
    return done;
}

int fsync(int fd) {
    REAL("fsync", int (*)(int));
    int failed = real(fd);
    if (!failed) record_fd('S', fd, 0, 0, 0);
    return failed;
}
int fdatasync(int fd) {
    REAL("fdatasync", int (*)(int));
    int failed = real(fd);
    if (!failed) record_fd('S', fd, 0, 0, 0);
    return failed;
}
int ftruncate64(int fd, off64_t size) {
    REAL("ftruncate64", int (*)(int, off64_t));
    int failed = real(fd, size);
    if (!failed) record_fd('T', fd, (uint64_t)size, 0, 0);
    return failed;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int rename(const char *from, const char *to) {
    REAL("rename", int (*)(const char *, const char *));
    int failed = real(from, to);
    if (!failed) record('R', from, 0, to, strlen(to));
    return failed;
}
int unlink(const char *path) {
    REAL("unlink", int (*)(const char *));
    int failed = real(path);
    if (!failed) record('U', path, 0, 0, 0);
    return failed;
}
