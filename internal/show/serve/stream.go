package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
)

// live shows a run under way. One that has ended has its page.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	link := (&url.URL{Path: of.ID}).EscapedPath()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return layouts.ExecuteTemplate(w, "live.html", struct{ ID, Events, Page string }{of.ID, "/events/" + link, "/run/" + link})
}

// pace is the time between two looks at the directory.
const pace = time.Second

// events sends the frames of a run under way as server-sent events, and "end" when it has ended.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return newProblem(http.StatusServiceUnavailable, errors.New("too many pages show runs under way: close one"))
	}
	d, err := result.Open(of.path)
	if err != nil {
		return newProblem(http.StatusUnprocessableEntity, err)
	}
	defer d.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, control: http.NewResponseController(w)}
	watched := live.NewWatched(d, func(block int) (*analysis.Report, error) {
		return analysis.Analyze(d, analysis.Options{Blocks: block})
	})
	width := between(r.URL.Query().Get("columns"), 40, 200)
	next := time.NewTicker(pace)
	defer next.Stop()
	for {
		ended, err := watched.Next()
		if err != nil {
			return out.send("problem", err.Error())
		}
		if err := out.send("frame", strings.Join(watched.Frame(width, frameHeight, time.Now()), "\n")); err != nil {
			return err
		}
		if ended {
			return out.send("end", "")
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-next.C:
		}
	}
}

const frameHeight = 40

// between reads a number of columns within bounds.
func between(s string, low, high int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		n = 100
	}
	return min(max(n, low), high)
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string
}

// send sends an event, unless it repeats the last one.
func (s *stream) send(event, data string) error {
	if event == "frame" && data == s.last {
		return nil
	}
	s.last = data
	if err := s.control.SetWriteDeadline(time.Now().Add(headerTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	text := "event: " + event + "\n"
	for line := range strings.SplitSeq(data, "\n") {
		text += "data: " + strings.ReplaceAll(line, "\r", " ") + "\n"
	}
	if _, err := fmt.Fprint(s.w, text+"\n"); err != nil {
		return err
	}
	return s.control.Flush()
}
