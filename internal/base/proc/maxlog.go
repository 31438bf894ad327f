package proc

import (
	"fmt"
	"io"
	"os"
	"time"
)

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
