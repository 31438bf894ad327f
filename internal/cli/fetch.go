package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/cli/console"
)

// download shows the progress of a download on standard error.
func (c *CommandLine) download(what string) (fetch.Options, func()) {
	bar := &progressBar{w: c.Err, what: what, terminal: console.Width(c.Err) > 0}
	return fetch.Options{Progress: bar.show, Log: bar.line}, bar.close
}

// progressBar shows how far a download is: redrawn on a terminal, a line now and then elsewhere.
type progressBar struct {
	w        io.Writer
	what     string
	terminal bool
	drawn    bool
	last     time.Time
}

// How often a bar is drawn, on a terminal and elsewhere.
const (
	redrawBar = 100 * time.Millisecond
	repeatBar = 2 * time.Second
)

const megabyte = 1e6

func (b *progressBar) show(done, total int64) {
	every := repeatBar
	if b.terminal {
		every = redrawBar
	}
	if time.Since(b.last) < every && done != total {
		return
	}
	b.last = time.Now()
	text := fmt.Sprintf("%s: %.1f MB", b.what, float64(done)/megabyte)
	if total > 0 {
		const cells = 30
		filled := int(cells * done / total)
		text = fmt.Sprintf("%s: [%-*s] %3d %%  %.1f of %.1f MB", b.what, cells, bar[:filled], 100*done/total,
			float64(done)/megabyte, float64(total)/megabyte)
	}
	if b.terminal {
		fmt.Fprintf(b.w, "\r%s\x1b[K", text)
		b.drawn = true
		return
	}
	fmt.Fprintln(b.w, text)
}

const bar = "##############################"

func (b *progressBar) line(text string) {
	b.close()
	fmt.Fprintln(b.w, text)
}

// close ends the line of a drawn bar.
func (b *progressBar) close() {
	if b.drawn {
		fmt.Fprintln(b.w)
		b.drawn = false
	}
}
