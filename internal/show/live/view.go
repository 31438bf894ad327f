// Package live draws the event stream of a run while it runs: one line redrawn in
// place on a terminal, plain lines elsewhere. It never touches the runner, and
// it draws a stored run as it drew the live one.
//
// Rules: everything goes to standard error; results are not its business. A line
// that stays is complete in itself, so that a log of plain lines reads as a story.
package live

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/result"
)

// View is a result.Sink. Close it when the run is over.
type View struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int // columns; nil: not a terminal
	state state
	drawn bool // a live line is on the screen and must be wiped before anything else is written
	stop  chan struct{}
	done  chan struct{}
}

// redraw is how often the live line moves without news, so that the time left counts down.
const redraw = 500 * time.Millisecond

// New draws on w. The live line needs w to be a terminal that can move its
// cursor, and plain to be false.
func New(w io.Writer, plain bool) *View {
	v := &View{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	if f, ok := w.(*os.File); ok && !plain && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		v.width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil || columns <= 0 {
				return 80
			}
			return columns
		}
	}
	go v.tick()
	return v
}

func (v *View) tick() {
	defer close(v.done)
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-v.stop:
			return
		case now := <-ticker.C:
			v.mu.Lock()
			v.draw(now)
			v.mu.Unlock()
		}
	}
}

// Event takes the next event. It never fails: a view that cannot be drawn must not end a run.
func (v *View) Event(e result.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.state.apply(e)
	if len(lines) > 0 {
		v.wipe()
	}
	for _, line := range lines {
		fmt.Fprintln(v.w, printable.Text(line)) // messages have the output of programs and servers
	}
	v.draw(e.Time)
	return nil
}

// Close wipes the live line and stops redrawing.
func (v *View) Close() {
	close(v.stop)
	<-v.done
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wipe()
}

// draw replaces the live line: back to the first column, the text, the rest erased.
func (v *View) draw(now time.Time) {
	if v.width == nil {
		return
	}
	if line := v.state.live(now, v.width()); line != "" {
		fmt.Fprintf(v.w, "\r%s\x1b[K", printable.Line(line))
		v.drawn = true
	}
}

func (v *View) wipe() {
	if v.drawn {
		fmt.Fprint(v.w, "\r\x1b[K")
		v.drawn = false
	}
}
