# Firmware of the emulated PC: loads a Linux kernel from the first disk and starts it.
#
# It stands where a PC has its BIOS, which would cost about as many emulated instructions as the whole kernel start and
# needs a boot loader on top. The disk is no file system: it begins with what boot_params.S makes (the kernel's
# parameters and a list of what lies where), and the kernel is entered by its 32-bit boot protocol
# (https://docs.kernel.org/arch/x86/boot.html).

        .equ    header, 0x10000                 # where boot_params.S lies in memory, and its entry list in it
        .equ    header_sectors, 16
        .equ    load_list, header + 0x1800
        .equ    entry, header + 0x214           # code32_start of the setup header
        .equ    rom, 0xf0000                    # this code, below 1 MiB
        .equ    started, 0x500                  # a word in the first page, which Linux never hands out
        .equ    stack, 0x9000
        .equ    ata, 0x1f0                      # data, features, count, lba 0..2, drive, status or command

        .section .text
        .code16
base:
real_mode:
        cli
        lgdtl   %cs:gdt_pointer - base
        inb     $0x92, %al                      # address line 20 on, without the reset of bit 0
        orb     $2, %al
        andb    $0xfe, %al
        outb    %al, $0x92
        movl    %cr0, %eax
        orb     $1, %al
        movl    %eax, %cr0
        ljmpl   $0x10, $rom + protected_mode - base

        .code32
protected_mode:
        movw    $0x18, %ax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %fs
        movw    %ax, %gs
        movw    %ax, %ss
        movl    $stack, %esp
        cld
        # Memory outlives a reset: the second time here means that the kernel rebooted after a panic.
        movl    $0xb007ed, %eax
        xchgl   %eax, started
        cmpl    $0xb007ed, %eax
        je      power_off

        movl    $header, %edi
        xorl    %ebx, %ebx
        movl    $header_sectors, %ebp
        call    read_disk
        movl    $load_list, %esi
next_part:
        movl    (%esi), %edi
        movl    4(%esi), %ebx
        movl    8(%esi), %ebp
        testl   %ebp, %ebp
        jz      start_kernel
        addl    $12, %esi
        call    read_disk
        jmp     next_part
start_kernel:
        movl    $header, %esi
        xorl    %ebp, %ebp
        xorl    %edi, %edi
        xorl    %ebx, %ebx
        jmp     *entry

power_off:                                      # Bochs ends when it reads this word at this port
        movl    $rom + word - base, %esi
        movl    $8, %ecx
        movw    $0x8900, %dx
        rep outsb
        hlt

# Reads ebp sectors (at least one) from sector ebx on to edi, and moves all three on.
read_disk:
        movl    $256, %ecx                      # the most that one command can ask for, written as 0
        cmpl    %ecx, %ebp
        jae     1f
        movl    %ebp, %ecx
1:      movw    $ata + 2, %dx
        movb    %cl, %al
        outb    %al, %dx
        incw    %dx
        movl    %ebx, %eax
        outb    %al, %dx
        incw    %dx
        shrl    $8, %eax
        outb    %al, %dx
        incw    %dx
        shrl    $8, %eax
        outb    %al, %dx
        incw    %dx
        shrl    $8, %eax
        orb     $0xe0, %al                      # first drive, sectors by number
        outb    %al, %dx
        incw    %dx
        movb    $0x20, %al                      # READ SECTORS
        outb    %al, %dx
        addl    %ecx, %ebx
        subl    %ecx, %ebp
2:      movw    $ata + 7, %dx
3:      inb     %dx, %al
        testb   $0x01, %al                      # error
        jnz     power_off
        andb    $0x88, %al                      # not busy, data there
        cmpb    $0x08, %al
        jne     3b
        pushl   %ecx
        movw    $ata, %dx
        movl    $128, %ecx
        rep insl
        popl    %ecx
        loop    2b
        testl   %ebp, %ebp
        jnz     read_disk
        ret

        .balign 8
gdt:    .quad   0, 0                            # flat code and data where the boot protocol wants them
        .quad   0x00cf9b000000ffff, 0x00cf93000000ffff
gdt_pointer:
        .word   . - gdt - 1
        .long   rom + gdt - base
word:   .ascii  "Shutdown"

        .org    0xfff0, 0xff                    # where the processor starts
        .code16
        jmp     real_mode
        .org    0x10000, 0xff
