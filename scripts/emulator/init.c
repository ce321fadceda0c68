/* First process of the emulated PC: runs one program, passes its output and status to the ports, switches off.

   Reads /emulator/arguments and /emulator/environment (strings that end with NUL) and /emulator/directory. Output goes
   through the parallel ports and not the serial ones, because Bochs takes a byte from those at once, whatever baud rate
   the emulated clock would allow. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { stdout_port = 0x378, stderr_port = 0x278, status_port = 0x2f8, power_port = 0x8900 };

static void print(unsigned short port, const char *text, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        outb((unsigned char)text[i], port);
        outb(0x0d, port + 2); /* strobe: the byte is taken when bit 0 rises */
        outb(0x0c, port + 2);
    }
}

static void complain(const char *what)
{
    char line[512];
    const int size = snprintf(line, sizeof line, "emulator: %s: %s\n", what, strerror(errno));
    print(stderr_port, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
}

static void power_off(int status)
{
    char line[32];
    const int size = snprintf(line, sizeof line, "status %d\n", status);
    outb(0x83, status_port + 3); /* 8 data bits; 115200 baud; the kernel may have left anything */
    outb(1, status_port);
    outb(0, status_port + 1);
    outb(0x03, status_port + 3);
    for (int i = 0; i < size; ++i) {
        while (!(inb(status_port + 5) & 0x20)) {
        }
        outb((unsigned char)line[i], status_port);
    }
    while (!(inb(status_port + 5) & 0x40)) { /* all sent: Bochs writes a byte when its time on the line is over */
    }
    for (const char *word = "Shutdown"; *word; ++word)
        outb((unsigned char)*word, power_port);
    for (;;)
        pause();
}

/* The NUL-terminated strings of a file as a vector with a null pointer at its end; ends the machine on failure. */
static char **read_strings(const char *path)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0) {
        complain(path);
        power_off(125);
    }
    const size_t size = (size_t)about.st_size;
    char *text = calloc(size + 1, 1);
    char **strings = calloc(size + 1, sizeof *strings);
    if (!text || !strings || read(file, text, size) != (ssize_t)size) {
        complain(path);
        power_off(125);
    }
    close(file);
    char **next = strings;
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        *next++ = at;
    return strings;
}

static void mount_or_complain(const char *type, const char *where)
{
    mkdir(where, 0755);
    if (mount(type, where, type, 0, NULL) != 0)
        complain(where);
}

static void run(char **arguments, char **environment, const char *directory, int out, int err)
{
    const int in = open("/dev/null", O_RDONLY);
    setsid();
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || chdir(directory) != 0)
        fprintf(stderr, "emulator: %s: %s\n", directory, strerror(errno));
    if (in > 2)
        close(in);
    execve(arguments[0], arguments, environment);
    fprintf(stderr, "emulator: %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

/* Passes on what the pipes hold; returns how many of them are still open. */
static int forward(struct pollfd pipes[2], int wait_ms)
{
    static const unsigned short ports[2] = {stdout_port, stderr_port};
    char buffer[4096];
    while (poll(pipes, 2, wait_ms) > 0) {
        for (int i = 0; i < 2; ++i) {
            if (pipes[i].fd < 0 || !pipes[i].revents)
                continue;
            const ssize_t size = read(pipes[i].fd, buffer, sizeof buffer);
            if (size > 0)
                print(ports[i], buffer, (size_t)size);
            else if (size == 0 || errno != EINTR)
                pipes[i].fd = -1;
        }
        if (wait_ms != 0)
            break;
    }
    return (pipes[0].fd >= 0) + (pipes[1].fd >= 0);
}

int main(void)
{
    if (iopl(3) != 0)
        return 1; /* nothing can be said without ports: the kernel panics, and the caller reports that */
    mount_or_complain("proc", "/proc");
    mount_or_complain("sysfs", "/sys");
    mount_or_complain("devtmpfs", "/dev");
    mount_or_complain("tmpfs", "/dev/shm");
    mkdir("/tmp", 01777);
    char **arguments = read_strings("/emulator/arguments");
    char **environment = read_strings("/emulator/environment");
    char **directory = read_strings("/emulator/directory");

    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        complain("pipe");
        power_off(125);
    }
    const pid_t child = fork();
    if (child < 0) {
        complain("fork");
        power_off(125);
    }
    if (child == 0)
        run(arguments, environment, directory[0], out[1], err[1]);
    close(out[1]);
    close(err[1]);

    /* The program's end ends the machine, also where a process that it left behind holds a pipe: hence the 100 ms. */
    struct pollfd pipes[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    int status = 0;
    while (forward(pipes, 100) > 0 && waitpid(child, &status, WNOHANG) != child) {
    }
    if (kill(child, 0) == 0)
        waitpid(child, &status, 0);
    forward(pipes, 0);
    power_off(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
