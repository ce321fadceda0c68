# First sectors of the emulated disk: the parameters of the Linux kernel and the list of what firmware.S loads.
#
# Assembled for each run with KERNEL (the bzImage's path), HEADER_END (end of its setup header), KERNEL_SECTORS,
# INITRD (address), INITRD_BYTES, INITRD_SECTORS, MEMORY_BYTES, COMMAND_LINE. Offsets:
# https://docs.kernel.org/arch/x86/zero-page.html and .../boot.html.

        .equ    here, 0x10000                   # as in firmware.S
        .equ    header_sectors, 16

        .section .text
        .org    0x1e8
        .byte   2                               # entries of the memory map below
        .org    0x1f1                           # the kernel's own setup header, but for four fields
        .incbin KERNEL, 0x1f1, 0x210 - 0x1f1
        .byte   0xff                            # type_of_loader: none of the registered ones
        .incbin KERNEL, 0x211, 0x218 - 0x211
        .long   INITRD, INITRD_BYTES
        .incbin KERNEL, 0x220, 0x228 - 0x220
        .long   here + 0x1000                   # cmd_line_ptr
        .incbin KERNEL, 0x22c, HEADER_END - 0x22c
        .org    0x2d0                           # memory map: usable, without the first page and 0x9f000 to 1 MiB
        .quad   0x1000, 0x9f000 - 0x1000
        .long   1
        .quad   0x100000, MEMORY_BYTES - 0x100000
        .long   1
        .org    0x1000
        .asciz  COMMAND_LINE
        .org    0x1800                          # address, first sector, sectors
        .long   0x100000, header_sectors, KERNEL_SECTORS
        .long   INITRD, header_sectors + KERNEL_SECTORS, INITRD_SECTORS
        .long   0, 0, 0
        .org    header_sectors * 512
