package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// tailBytes bounds a tail, in bytes.
const tailBytes = 32 << 10

type tail interface {
	last() []byte // the last tailBytes at most
}

// logFile is the tail of a log on disk, from where this process began to write.
type logFile struct {
	path string
	from int64
}

func (l logFile) last() []byte {
	f, err := os.Open(l.path)
	if err != nil {
		return []byte("(its log cannot be read: " + err.Error() + ")")
	}
	defer f.Close()
	at := l.from
	if info, err := f.Stat(); err == nil && info.Size()-tailBytes > at {
		at = info.Size() - tailBytes
	}
	b, err := io.ReadAll(io.NewSectionReader(f, at, tailBytes))
	if err != nil {
		return []byte("(its log cannot be read: " + err.Error() + ")")
	}
	return b
}

// Ring keeps the last bytes written to it.
type Ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *Ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, b...)
	if len(r.buf) > 2*tailBytes {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-tailBytes:]...)
	}
	return len(b), nil
}

func (r *Ring) last() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.buf[max(0, len(r.buf)-tailBytes):])
}

// Lines are the last n lines that were written.
func (r *Ring) Lines(n int) []string { return LastLines(r.last(), n) }

// LastLines are the last n lines of an output.
func LastLines(b []byte, n int) []string {
	text := strings.TrimRight(string(b), "\n")
	if text == "" || n <= 0 {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}

const (
	// logPeriod is the time between two checks of a log's size.
	logPeriod = time.Second
	// keptLog is the share of a long log that is kept at its beginning, and at its end: 1/keptLog each.
	keptLog = 4
)

// boundLog shortens the log of a process whenever it is longer than its limit, until the process
// ends. The process appends to it meanwhile, so what it writes during the shortening may be lost.
func (p *Process) boundLog() {
	again := time.NewTicker(logPeriod)
	defer again.Stop()
	for {
		select {
		case <-p.done:
			p.shortenLog()
			return
		case <-again.C:
			p.shortenLog()
		}
	}
}

// shortenLog is tried again later if it fails. [Process.Tail] waits for it: meanwhile the log has no end.
func (p *Process) shortenLog() {
	p.shortening.Lock()
	defer p.shortening.Unlock()
	_ = shorten(p.command.Log, p.command.MaxLog)
}

// shorten removes the middle of a log longer than limit bytes.
func shorten(path string, limit int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= limit {
		return err
	}
	part := limit / keptLog
	end, err := io.ReadAll(io.NewSectionReader(f, info.Size()-part, part))
	if err != nil {
		return err
	}
	if err := f.Truncate(part); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n[tare: %d bytes were removed here: the log is limited to %d]\n%s", info.Size()-2*part, limit, end)
	return err
}
