package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

func architecture(programs []Program) (string, error) {
	var first string
	for i, p := range programs {
		arch, err := Architecture(p.Path)
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = arch
		} else if arch != first {
			return "", fmt.Errorf("%s is built for %s, %s for %s: an image has one architecture", p.Path, arch, programs[0].Path, first)
		}
	}
	return first, nil
}

// ErrNotStatic reports a program that needs a dynamic loader and libraries, which the image does not have.
var ErrNotStatic = errors.New("not a static executable")

// machines are the architectures of images, by the machine in the ELF header.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Architecture of a static Linux executable, as Go names it.
func Architecture(path string) (string, error) {
	f, err := elf.Open(path)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // too short for a header
		return "", fmt.Errorf("%s: not an executable for Linux: %w", path, err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	arch, ok := machines[f.Machine]
	if !ok {
		return "", fmt.Errorf("%s: built for %v: %w", path, f.Machine, errors.ErrUnsupported)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s: %w: build it with CGO_ENABLED=0", path, ErrNotStatic)
		}
	}
	return arch, nil
}
