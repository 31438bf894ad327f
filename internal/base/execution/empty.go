package execution

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
)

// machines are the architectures with an empty program: their number in ELF, and the machine code that ends a process with exit code 0.
var machines = map[string]struct {
	number elf.Machine
	end    []byte
}{
	"amd64": {elf.EM_X86_64, []byte{0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05}},                        // mov eax, exit_group; xor edi, edi; syscall
	"arm64": {elf.EM_AARCH64, []byte{0x00, 0x00, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4}}, // mov x0, 0; mov x8, exit_group; svc 0
}

// Static is a program of Linux that executes machine code and then ends with exit code 0. It has one page, no library and no
// dynamic loader. It is nil on an architecture without an empty program.
func Static(code []byte) []byte {
	const base, page = 0x400000, 0x10000
	machine, known := machines[runtime.GOARCH]
	if !known || runtime.GOOS != "linux" {
		return nil
	}
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine.number), Version: uint32(elf.EV_CURRENT), Phnum: 1}
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Align: page}
	header.Ehsize, header.Phentsize = uint16(binary.Size(header)), uint16(binary.Size(segment))
	header.Phoff = uint64(header.Ehsize)
	begin := header.Phoff + uint64(header.Phentsize)
	header.Entry, segment.Filesz = base+begin, begin+uint64(len(code)+len(machine.end))
	segment.Memsz = segment.Filesz
	var b bytes.Buffer
	for _, part := range []any{header, segment, code, machine.end} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer has no errors
	}
	return b.Bytes()
}

// emptyProgram writes the empty program below a new directory. It is not ok where files cannot be executed.
func emptyProgram() (path string, remove func(), ok bool) {
	text := Static(nil)
	dir, err := os.MkdirTemp("", "tare-empty-")
	if err != nil {
		return "", func() {}, false
	}
	path, remove = filepath.Join(dir, "empty"), func() { _ = os.RemoveAll(dir) }
	return path, remove, text != nil && os.WriteFile(path, text, 0o700) == nil //nolint:gosec // it is executed
}
