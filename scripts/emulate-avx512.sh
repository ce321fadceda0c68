#!/usr/bin/env bash
# Runs an x86-64 Linux program on an emulated processor with AVX-512 and VNNI.
#
#   scripts/emulate-avx512.sh [-f PATH]... PROGRAM [ARGUMENT]...
#
# The kernels for AVX-512 have to be tested on machines that lack it too: the author's, and most of those that a change
# is tested on. Bochs executes these instructions in software, but only as a whole PC. So this script boots a Linux
# kernel in Bochs, whose first process runs PROGRAM, and passes on what it writes and its exit status. The firmware, the
# boot parameters and the first process lie in scripts/emulator/. A kernel is needed because it, not the program,
# switches the AVX-512 registers on, and because the programs use threads.
#
# The program, the libraries that it is linked to, and each -f PATH (a file, or a folder with all it holds) appear in
# the emulated PC under their own absolute paths, and the program starts in the same folder as here. It sees one
# processor, an empty standard input, and of the environment BANTAM_*, LANG, LC_* and TZ. What it writes to files is
# lost.
#
# Exit status: the program's, or 128 + signal; 77 something is not installed (skipped); 2 wrong use;
# 124 over the time limit; 125 the emulation failed.
#
# Environment:
#   BANTAM_EMULATOR_SECONDS    time limit, 1800
#   BANTAM_EMULATOR_MEMORY_MB  memory of the emulated PC, 1024
#   BANTAM_EMULATOR_CPU        one of `bochs --help cpu`, corei7_icelake_u (AVX-512 F BW DQ VL VBMI VNNI);
#                              corei7_skylake_x has AVX-512 without VNNI, corei7_haswell_4770 AVX2
#   BANTAM_EMULATOR_KERNEL     a Linux kernel (bzImage); the newest of /boot/vmlinuz-*, -cloud- kernels first
#
# Cost in processor time of a Zen 3 at 2.4 GHz: 14 s until the program starts (0.5 * 10^9 instructions), then 16 s for
# 10^9 scalar instructions or 22 s for 10^9 of a loop over vpdpbusd.
set -euo pipefail

name=${0##*/}
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/emulator

say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() { local status=$1; shift; say "$@"; exit "$status"; }

limit_seconds=${BANTAM_EMULATOR_SECONDS:-1800}
memory_mb=${BANTAM_EMULATOR_MEMORY_MB:-1024}
model=${BANTAM_EMULATOR_CPU:-corei7_icelake_u}
for number in "$limit_seconds" "$memory_mb"; do
    [[ $number =~ ^[1-9][0-9]{0,6}$ ]] || die 2 "not a number of seconds or MiB: '$number'"
done
# Bochs puts its memory into one 32-bit address space with the devices; 3 GiB leave room for those.
((memory_mb >= 256 && memory_mb <= 3072)) || die 2 "BANTAM_EMULATOR_MEMORY_MB: expected 256 to 3072, found $memory_mb"
[[ $model =~ ^[a-z0-9_]+$ ]] || die 2 "not the name of a processor: '$model'"

files=()
while getopts f: option; do
    case $option in
        f) files+=("$OPTARG") ;;
        *) die 2 "usage: $name [-f PATH]... PROGRAM [ARGUMENT]..." ;;
    esac
done
shift $((OPTIND - 1))
(($# > 0)) || die 2 "usage: $name [-f PATH]... PROGRAM [ARGUMENT]..."
[[ -f $1 && -x $1 ]] || die 2 "no program: $1"
program=$(realpath -- "$1")
shift

# --- what has to be installed ---

find_kernel() {
    local candidate
    if [[ -n ${BANTAM_EMULATOR_KERNEL:-} ]]; then
        realpath -- "$BANTAM_EMULATOR_KERNEL"
        return
    fi
    # Debian's cloud kernels are LZ4 and small: they unpack in 2 s here. The others, packed by xz, take over a minute.
    for candidate in $(printf '%s\n' /boot/vmlinuz-*-cloud-amd64 | sort -rV) \
        $(printf '%s\n' /boot/vmlinuz-* | sort -rV); do
        if [[ -r $candidate ]]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need bochs bochs
need cpio cpio
need gcc gcc
need ld binutils
compgen -G '/usr/lib/*/bochs/plugins/libbx_term_gui.so' >/dev/null || packages+=(bochs-term)
echo 'int main(void) { return 0; }' | gcc -static -x c -o /dev/null - 2>/dev/null || packages+=(libc6-dev)
kernel=$(find_kernel)
[[ -n $kernel ]] || packages+=(linux-image-cloud-amd64)
((${#packages[@]} == 0)) || die 77 "skipped: needs these Debian packages: ${packages[*]}"
models=$(bochs --help cpu 2>&1 </dev/null || true)
grep -qx "$model" <<<"$models" || die 77 "skipped: this bochs has no processor '$model'"

[[ -r $kernel ]] || die 2 "BANTAM_EMULATOR_KERNEL: cannot read $kernel"
byte_of_kernel() { od -An -v -tu1 -j"$1" -N1 -- "$kernel" | tr -d ' '; }
[[ $(od -An -v -tx1 -j514 -N4 -- "$kernel" | tr -d ' ') == 48647253 ]] || die 125 "$kernel: not an x86 Linux kernel"
kernel_start=$((($(byte_of_kernel 497) + 1) * 512))
header_end=$((514 + $(byte_of_kernel 513)))
elf=$(LC_ALL=C readelf -h -- "$program" 2>/dev/null || true)
[[ $elf == *X86-64* ]] || die 2 "$program: not an x86-64 program"

# --- a place for this run, gone at its end ---

work=$(mktemp -d "${TMPDIR:-/tmp}/bantam-emulator.XXXXXXXX")
bochs_pid=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    # Bochs ignores SIGTERM on a terminal display; `timeout` made a process group of its own.
    [[ -z $bochs_pid ]] || kill -KILL -- "-$bochs_pid" 2>/dev/null || true
    rm -rf -- "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# --- firmware and first process, kept between runs ---

cache=${XDG_CACHE_HOME:-$HOME/.cache}/bantam/emulator-$(cat "$sources"/* "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
if [[ ! -d $cache ]]; then
    mkdir "$work/cache"
    gcc -std=gnu17 -O1 -static -o "$work/cache/init" "$sources/init.c"
    gcc -c -o "$work/firmware.o" "$sources/firmware.S"
    ld -Ttext=0 -e 0 --oformat binary -o "$work/cache/firmware" "$work/firmware.o"
    mkdir -p "$(dirname "$cache")"
    mv -T "$work/cache" "$cache" 2>/dev/null || [[ -d $cache ]] # another run may have been faster
fi

# --- the initial file system ---

root=$work/root
put() { # a file or folder under its own absolute path; links become what they point to
    local path
    path=$(realpath -s -- "$1")
    mkdir -p -- "$root${path%/*}"
    cp -rL -- "$path" "$root${path%/*}/"
}
mkdir -p "$root/emulator" "$root/dev" "$root$PWD"
cp "$cache/init" "$root/init"
put "$program"
for file in ${files[@]+"${files[@]}"}; do
    [[ -e $file ]] || die 2 "-f $file: no such file"
    put "$file"
done
library_path=
if libraries=$(ldd "$program" 2>/dev/null); then
    [[ $libraries != *'not found'* ]] || die 2 "$program: library missing: $(grep -m1 'not found' <<<"$libraries")"
    while read -r library; do
        put "$library"
        library_path=$library_path${library_path:+:}${library%/*}
    done < <(sed -nE 's/^(.* => )?[[:space:]]*(\/[^ ]+) \(0x[0-9a-f]+\)$/\2/p' <<<"$libraries" | sort -u)
fi
printf '%s\0' "$program" "$@" >"$root/emulator/arguments"
printf '%s\0' "$PWD" >"$root/emulator/directory"
{
    printf '%s\0' PATH=/usr/bin:/bin HOME=/tmp TMPDIR=/tmp ${library_path:+"LD_LIBRARY_PATH=$library_path"}
    env -0 | grep -zE '^(BANTAM_|LANG=|LC_|TZ=)' || true
} >"$root/emulator/environment"
(cd "$root" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initrd"

# --- the disk ---

sectors() { echo $((($1 + 511) / 512)); }
kernel_bytes=$(($(stat -Lc %s -- "$kernel") - kernel_start))
initrd_bytes=$(stat -c %s "$work/initrd")
# The kernel unpacks itself to 16 MiB and needs some 60 MiB; the files stay twice in memory for a moment.
initrd_mb=128
((initrd_mb + 2 * (initrd_bytes >> 20) + 64 <= memory_mb)) ||
    die 2 "$((initrd_bytes >> 20)) MiB of files do not fit: raise BANTAM_EMULATOR_MEMORY_MB"

# clearcpuid: Bochs 2.7 misreports the register state of XSAVEC, XSAVES and PKU (321, 323, 515, 516), and Linux then
# switches AVX off; with FSRM (580) but without fast string operations memmove of Linux 6.1 runs wild. The rest leaves
# out hardware that is not there, and work: cryptomgr.notests alone saves two thirds of the time until the program.
command_line="console=ttyS0 quiet panic=-1 reboot=k,t rdinit=/init rootfstype=ramfs clearcpuid=321,323,515,516,580"
command_line+=" nokaslr noapic nolapic acpi=off pci=off nosmp mitigations=off nopti tsc=reliable cryptomgr.notests"
command_line+=" init_on_alloc=0 random.trust_cpu=on"

gcc -c -o "$work/boot_params.o" -DKERNEL="\"$kernel\"" -DHEADER_END="$header_end" \
    -DKERNEL_SECTORS="$(sectors "$kernel_bytes")" -DINITRD="($initrd_mb << 20)" -DINITRD_BYTES="$initrd_bytes" \
    -DINITRD_SECTORS="$(sectors "$initrd_bytes")" -DMEMORY_BYTES="($memory_mb << 20)" \
    -DCOMMAND_LINE="\"$command_line\"" "$sources/boot_params.S"
ld -Ttext=0 -e 0 --oformat binary -o "$work/disk" "$work/boot_params.o"
tail -c +$((kernel_start + 1)) -- "$kernel" >>"$work/disk"
truncate -s %512 "$work/disk"
cat "$work/initrd" >>"$work/disk"
truncate -s %516096 "$work/disk" # whole cylinders of 16 heads and 63 sectors, which Bochs assumes
rm -rf -- "$root" "$work/initrd"

# --- the machine ---

# ips: instructions per emulated second. That of the processor's own time stamp counter (its CPUID says 1.4976 GHz), or
# the kernel's waiting loops would take a multiple of what they should.
cat >"$work/bochsrc" <<CONFIGURATION
config_interface: textconfig
display_library: term
cpu: model=$model, count=1, ips=1497600000, reset_on_triple_fault=1, ignore_bad_msrs=1
memory: guest=$memory_mb, host=$memory_mb
romimage: file="$cache/firmware", address=0x00000000
pci: enabled=0
plugin_ctrl: biosdev=0, extfpuirq=0, gameport=0, speaker=0, iodebug=0
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path="$work/disk", mode=flat
boot: disk
clock: sync=none
com1: enabled=1, mode=file, dev="$work/console"
com2: enabled=1, mode=file, dev="$work/status"
parport1: enabled=1, file="$work/stdout"
parport2: enabled=1, file="$work/stderr"
log: $work/log
panic: action=fatal
error: action=report
info: action=ignore
debug: action=ignore
CONFIGURATION
echo c >"$work/debugger" # Debian's Bochs starts in its debugger: continue
: >"$work/console"

# The pipes stay open for writing here until Bochs has ended, because it opens them at the first byte or never.
mkfifo "$work/stdout" "$work/stderr"
exec 3<>"$work/stdout" 4<>"$work/stderr"
cat "$work/stdout" 3>&- 4>&- &
stdout_pid=$!
cat "$work/stderr" >&2 3>&- 4>&- &
stderr_pid=$!

started=$SECONDS
TERM=xterm setsid timeout -s KILL "$limit_seconds" bochs -q -f "$work/bochsrc" -rc "$work/debugger" \
    </dev/null >"$work/bochs" 2>&1 3>&- 4>&- &
bochs_pid=$!
{ wait "$bochs_pid" || true; } 2>/dev/null
bochs_pid=
exec 3>&- 4>&-
wait "$stdout_pid" "$stderr_pid"

# --- the end ---

if [[ -f $work/status && $(<"$work/status") =~ ^status\ ([0-9]+)$ ]]; then
    status=${BASH_REMATCH[1]}
    if grep -q 'Out of memory' "$work/console"; then
        say "out of memory: raise BANTAM_EMULATOR_MEMORY_MB"
    fi
    if ((status > 128 && status <= 192)); then
        say "$program: killed by signal $((status - 128)) ($(kill -l $((status - 128))))"
    fi
    exit "$status"
fi
if ((SECONDS - started >= limit_seconds)); then
    [[ ! -s $work/console ]] || tail -n 5 "$work/console" | sed 's/^/  guest: /' >&2
    die 124 "$program: not done after $limit_seconds s (BANTAM_EMULATOR_SECONDS)"
fi
if grep -q 'Kernel panic' "$work/console"; then
    tail -n 30 "$work/console" | sed 's/^/  guest: /' >&2
    die 125 "the kernel of the emulated PC ($kernel) panicked"
fi
{
    tail -n 10 "$work/console" | sed 's/^/  guest: /'
    grep -E '^[0-9]+p' "$work/log" | tail -n 5 | sed 's/^/  bochs: /'
    tail -n 5 "$work/bochs" | sed 's/^/  bochs: /'
} >&2 || true
die 125 "the emulation of $program ended without a status"
