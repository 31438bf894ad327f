package live

import (
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

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

// key acts on a key.
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
	case "s":
		s.look.order = (s.look.order + 1) % orders
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
	all := sortedRows(s.board, s.look.order)
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
