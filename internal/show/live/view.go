// Package live shows a run while it runs: on a terminal a screen with the plan as a grid, the
// current interval, rates, latencies and CPU; elsewhere lines. It replays stored runs on the
// same screen.
package live

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// Options of a [View].
type Options struct {
	Plain bool      // lines only
	In    io.Reader // of keys; the screen needs a terminal
	Plan  plan.Plan
	// Recorded are the trials of an earlier run.
	Recorded []result.Record
	// Analyze returns the report on the blocks up to block. Nil means no intervals. It is called
	// between trials only: it uses CPU.
	Analyze func(block int) (*answer.Report, error)
	// Interrupt is called after the screen was ended by a key. nil: nothing follows.
	Interrupt func()
	// Player sets the clock of a replay. Nil means a run that is under way.
	Player *Player
}

// View is a result.Sink. Close it when the run is over.
type View struct {
	mu       sync.Mutex
	w        io.Writer
	o        Options
	width    func() int // columns of the live line, nil if not a terminal
	board    *Board     // of the lines; the screen has its own, which can be paused
	drawn    bool       // a live line is on the screen and must be wiped before anything else is written
	stop     chan struct{}
	done     chan struct{}
	program  *tea.Program // nil: lines
	queue    queue
	screened chan struct{} // closed when the screen has ended
	kept     []string      // lines that were not written because of the screen
	answers  answers
}

// redraw is how often the view is drawn without news, so that the time left counts down.
const redraw = 500 * time.Millisecond

// New draws on w. The screen needs w and o.In to be terminals. A terminal without keys or a
// dumb terminal gets lines, and where the cursor can move a live line. NO_COLOR removes the colours.
func New(w io.Writer, o Options) *View {
	v := &View{w: w, o: o, board: NewBoard(o.Plan), stop: make(chan struct{}), done: make(chan struct{})}
	out, ok := w.(*os.File)
	terminal := ok && !o.Plain && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	in, keys := o.In.(*os.File)
	switch {
	case terminal && keys && term.IsTerminal(int(in.Fd())) && len(o.Plan.Trials) > 0:
		v.open(in, out)
	case terminal:
		v.width = func() int {
			columns, _, err := term.GetSize(int(out.Fd()))
			if err != nil || columns <= 0 {
				return 80
			}
			return columns
		}
	}
	go routine.Guarded(v.tick)()
	return v
}

// framesPerSecond of the renderer: keys answer at once, and an idle screen costs little.
const framesPerSecond = 5

// open starts the screen.
func (v *View) open(in, out *os.File) {
	board := NewBoard(v.o.Plan)
	for _, r := range v.o.Recorded {
		board.Recorded(r)
	}
	s := &screen{board: board, queue: &v.queue, clock: v.o.Now, player: v.o.Player, look: look{width: 80, height: 24, follow: true}}
	s.at = v.o.Now()
	profile := colorprofile.ANSI
	if os.Getenv("NO_COLOR") != "" {
		profile = colorprofile.ASCII
	}
	// A profile given here keeps the library from starting `tmux info`.
	v.program = tea.NewProgram(s, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond), tea.WithColorProfile(profile))
	v.screened = make(chan struct{})
	go routine.Guarded(func() {
		_, err := v.program.Run()
		v.mu.Lock()
		v.program = nil
		for _, line := range v.kept {
			fmt.Fprintln(v.w, line)
		}
		v.kept = nil
		if err != nil {
			fmt.Fprintf(v.w, "the screen ended: %s\n", printable.Text(err.Error()))
		}
		v.mu.Unlock()
		close(v.screened)
		if s.ending && v.o.Interrupt != nil {
			v.o.Interrupt()
		}
	})()
}

// Now is the time of the run that is shown.
func (o Options) Now() time.Time {
	if o.Player != nil {
		return o.Player.Now()
	}
	return time.Now()
}

func (v *View) tick() {
	defer close(v.done)
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-ticker.C:
			v.mu.Lock()
			v.draw(v.o.Now())
			v.mu.Unlock()
		}
	}
}

// Event takes the next event. It never fails: a view that cannot be drawn must not end a run.
func (v *View) Event(e result.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.program != nil {
		if h := v.answers.before(e, v.o); h != nil {
			v.queue.put(news{headline: h})
		}
	}
	lines := v.board.Apply(e)
	for i, line := range lines {
		lines[i] = printable.Text(line) // messages have the output of programs and servers
	}
	if v.program != nil {
		v.queue.put(news{event: &e})
		v.kept = append(v.kept, lines...)
		return nil
	}
	if len(lines) > 0 {
		v.wipe()
	}
	for _, line := range lines {
		fmt.Fprintln(v.w, line)
	}
	v.draw(e.Time)
	return nil
}

// Leave ends the screen, and lines follow. It returns when the terminal is as before.
func (v *View) Leave() {
	v.mu.Lock()
	program := v.program
	v.mu.Unlock()
	if program != nil {
		program.Quit()
		<-v.screened
	}
}

// Wait returns when the reader ended the screen, or at once without a screen.
func (v *View) Wait() {
	if v.screened != nil {
		<-v.screened
	}
}

// Close ends the screen, wipes the live line and stops redrawing.
func (v *View) Close() {
	v.Leave()
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
	if line := v.board.live(now, v.width()); line != "" {
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
