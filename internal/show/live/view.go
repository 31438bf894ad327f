// Package live shows a run while it runs: on a terminal a screen with the plan as a grid, the
// current interval, rates, latencies and CPU; elsewhere lines. It replays stored runs on the
// same screen.
package live

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
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
	written  time.Time     // when the last line was
	silence  time.Duration // after which a line without news follows
}

// redraw is how often the view is drawn without news, so that the time left counts down. Without a terminal a line follows after
// leastSilence, and each next one after twice the time.
const (
	redraw                    = 500 * time.Millisecond
	leastSilence, mostSilence = 2 * time.Second, time.Minute
)

// New draws on w. The screen needs w and o.In to be terminals. A terminal without keys or a
// dumb terminal gets lines, and where the cursor can move a live line. NO_COLOR removes the colours.
func New(w io.Writer, o Options) *View {
	v := &View{w: w, o: o, board: NewBoard(o.Plan), stop: make(chan struct{}), done: make(chan struct{}), silence: leastSilence}
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
			v.speak(v.o.Now())
			v.mu.Unlock()
		}
	}
}

// Event takes the next event. It never fails: a view that cannot be drawn must not end a run.
func (v *View) Event(e result.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	if v.program == nil {
		lines = v.answers.soFar(e, v.o)
	} else if h := v.answers.before(e, v.o); h != nil {
		v.queue.put(news{headline: h})
	}
	lines = append(lines, v.board.Apply(e)...)
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
		v.written = e.Time
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

// speak writes the live line as a line of its own, if there was none for long.
func (v *View) speak(now time.Time) {
	if line := v.board.live(now, 0); v.width == nil && v.program == nil && line != "" && now.Sub(v.written) >= v.silence {
		fmt.Fprintln(v.w, printable.Line(line))
		v.written, v.silence = now, min(2*v.silence, mostSilence)
	}
}

func (v *View) wipe() {
	if v.drawn {
		fmt.Fprint(v.w, "\r\x1b[K")
		v.drawn = false
	}
}

// news is an event, or the headline of the trials so far.
type news struct {
	event    *result.Event
	headline *Headline
}

// queue has the news that the screen has not drawn. The runner never waits for the screen.
type queue struct {
	mu  sync.Mutex
	all []news
}

func (q *queue) put(n news) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, n)
}

func (q *queue) drain() []news {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	q.all = nil
	return all
}

// screen is the model of Bubble Tea. It draws at each tick, not at each event: the cost of the
// screen does not grow with the number of events.
type screen struct {
	board   *Board
	queue   *queue
	clock   func() time.Time
	player  *Player // of a replay, nil for none
	plain   bool    // without color
	look    look
	at      time.Time // of the frame
	pending []news    // while paused
	ending  bool      // by a key
}

type tick struct{}

func (s *screen) Init() tea.Cmd { return s.next() }

// Update folds news in at each tick, and follows keys and the size of the terminal.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		s.refresh()
		return s, s.next()
	case tea.WindowSizeMsg:
		s.look.width, s.look.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.key(msg.String())
	}
	return s, nil
}

// next is the next tick. In a measure phase there is one a second, as there are figures.
func (s *screen) next() tea.Cmd {
	period := redraw
	if slices.ContainsFunc(s.board.running, func(t *Trial) bool { return t.Phase == measurePhase }) {
		period = time.Second
	}
	return tea.Tick(period, func(time.Time) tea.Msg { return tick{} })
}

func (s *screen) View() tea.View {
	v := tea.NewView(strings.Join(frame(s.board, s.look, s.plain, s.at), "\n"))
	v.AltScreen = true
	v.WindowTitle = "tare " + clean(s.board.run.Experiment)
	return v
}

func (s *screen) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		s.ending = true
		return tea.Quit
	case "space", "p":
		s.look.paused = !s.look.paused
		if s.player != nil {
			s.player.pause(s.look.paused)
		}
		s.refresh()
	case "l":
		s.turnTo(logPage)
	case "c":
		s.turnTo(clusterPage)
	case "enter":
		s.turnTo(trialPage)
	case "?", "h":
		s.look.help = !s.look.help
	case "esc":
		if s.look.help {
			s.look.help = false
			return nil
		}
		if s.look.page == overview {
			s.look.follow = true
		}
		s.look.page, s.look.scroll = overview, 0
	case "+", "=", "-":
		if s.player != nil {
			s.player.faster(map[string]float64{"+": 2, "=": 2, "-": 0.5}[key])
			s.look.speed = s.player.words()
		}
	default:
		s.move(key)
	}
	return nil
}

// refresh brings the board up to date, unless it is paused.
func (s *screen) refresh() {
	s.pending = append(s.pending, s.queue.drain()...)
	if s.look.paused {
		return
	}
	for _, n := range s.pending {
		if n.event != nil {
			s.board.Apply(*n.event)
		}
		if n.headline != nil {
			s.board.Answer(n.headline)
		}
	}
	s.pending, s.at = nil, s.clock()
	if s.player != nil {
		s.look.speed = s.player.words()
	}
}

func (s *screen) turnTo(p page) {
	if s.look.page == p {
		p = overview
	}
	s.look.page, s.look.scroll = p, 0
}

// move scrolls a page, or chooses another trial.
func (s *screen) move(key string) {
	step, ok := map[string][2]int{
		"up": {-1, 0}, "k": {-1, 0}, "down": {1, 0}, "j": {1, 0}, "left": {0, -1}, "right": {0, 1},
		"pgup": {-10, 0}, "pgdown": {10, 0}, "home": {-1 << 20, 0}, "end": {1 << 20, 0},
	}[key]
	if !ok {
		return
	}
	switch s.look.page {
	case trialPage:
		s.scroll(step[0], len(drawing{painter{true}, s.board, s.look, s.at}.trialLines(s.board.grid[s.look.cell(s.board)])))
	case clusterPage:
		d := drawing{painter{true}, s.board, s.look, s.at}
		s.scroll(step[0], len(d.clusterLines(d.chosen())))
	case logPage: // from the end
		s.scroll(-step[0], len(drawing{painter{true}, s.board, s.look, s.at}.messageLines(s.look.width)))
	default:
		s.choose(step[0], step[1])
	}
}

func (s *screen) scroll(by, lines int) {
	s.look.scroll = min(max(0, s.look.scroll+by), max(0, lines-max(0, s.look.height-2)))
}

// choose moves the choice by rows and blocks, and stops following the run.
func (s *screen) choose(rows, blocks int) {
	all := s.board.plan.Treatments
	if len(all) == 0 {
		return
	}
	at := s.look.cell(s.board)
	i := slices.IndexFunc(all, func(t plan.Treatment) bool { return t.ID == at.treatment })
	i = min(max(0, i+rows), len(all)-1)
	s.look.follow = false
	s.look.treatment, s.look.block = all[i].ID, min(max(1, at.block+blocks), max(1, s.board.Blocks()))
}

// cell is the chosen cell.
func (l look) cell(b *Board) cell { return drawing{painter{true}, b, l, time.Time{}}.chosenCell() }

// longestGap between two events of a replay. The rest is skipped, such as the time between an
// interrupt and the resumed run.
const longestGap = 10 * time.Second

// Player is the clock of a replay: it runs at a multiple of real time, and stops while paused.
type Player struct {
	mu     sync.Mutex
	speed  float64 // 0: without waiting
	at     time.Time
	since  time.Time // real time at which the clock was at
	paused bool
	woken  chan struct{} // closed by a change
}

// NewPlayer returns a clock of the given speed. 0 does not wait.
func NewPlayer(speed float64) *Player { return &Player{speed: speed, woken: make(chan struct{})} }

// Now is the time of the replay.
func (p *Player) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}

func (p *Player) faster(by float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.now())
	p.speed = min(max(p.speed*by, 0.125), 1024)
}

func (p *Player) pause(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.now())
	p.paused = on
}

func (p *Player) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%gx", p.speed)
}

// Play gives the events of a stored run to a view, at the player's speed.
func (p *Player) Play(ctx context.Context, events iter.Seq2[result.Event, error], v result.Sink) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if err := p.until(ctx, e.Time); err != nil {
			return err
		}
		if err := v.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// until waits until the clock is at t.
func (p *Player) until(ctx context.Context, t time.Time) error {
	for {
		p.mu.Lock()
		now := p.now()
		if p.at.IsZero() || p.speed == 0 || t.Sub(now) > longestGap {
			p.set(t)
			now = t
		}
		left, paused, woken := t.Sub(now), p.paused, p.woken
		real := time.Duration(float64(left) / max(p.speed, 0.001))
		p.mu.Unlock()
		if !paused && left <= 0 {
			return ctx.Err()
		}
		var due <-chan time.Time
		if !paused {
			due = time.After(real)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
		case <-woken:
		}
	}
}

func (p *Player) now() time.Time {
	if p.paused || p.speed == 0 || p.since.IsZero() {
		return p.at
	}
	return p.at.Add(time.Duration(float64(time.Since(p.since)) * p.speed))
}

// set moves the clock.
func (p *Player) set(at time.Time) {
	p.at, p.since = at, time.Now()
	close(p.woken)
	p.woken = make(chan struct{})
}

// Follow gives the events of a run that another process writes to a view, until the run ends.
func Follow(ctx context.Context, d *result.Dir, v result.Sink) error {
	follower := result.Follow(d)
	next := time.NewTicker(redraw)
	defer next.Stop()
	for quiet := 0; ; {
		events, err := follower.Next()
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := v.Event(e); err != nil {
				return err
			}
		}
		ended, err := d.Ended()
		if err != nil {
			return err
		}
		// The last events may be newer than the follower's cut.
		if quiet++; !ended || len(events) > 0 {
			quiet = 0
		}
		if quiet > 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
	}
}
