package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
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

// events sends the state of a run under way as server-sent events, and "end" with its outcome when no more trials follow.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	of, err := s.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return newProblem(http.StatusServiceUnavailable, errors.New("too many pages show running experiments: close one"))
	}
	d, err := result.Open(of.path)
	if err != nil {
		return newProblem(http.StatusUnprocessableEntity, err)
	}
	defer d.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, control: http.NewResponseController(w)}
	watched := live.NewWatched(d, func(block int) (*answer.Report, error) {
		return answer.Analyze(d, compare.Options{Blocks: block})
	})
	next := time.NewTicker(pace)
	defer next.Stop()
	for {
		writing := result.Writing(of.root.Root, of.name)
		ended, err := watched.Next()
		if err != nil {
			return out.send("problem", err.Error())
		}
		state, err := json.Marshal(watched.Snapshot(time.Now()))
		if err == nil {
			err = out.send("state", string(state))
		}
		if err != nil {
			return err
		}
		if ended || !writing {
			return out.send("end", outcomeOf(d))
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-next.C:
		}
	}
}

// outcomeOf is the state of a run that no process writes: without the trials of its plan it was interrupted.
func outcomeOf(d *result.Dir) string {
	if pending, err := d.Pending(); err != nil || len(pending) > 0 {
		return interrupted
	}
	return finished
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string
}

// send sends an event, unless it repeats the last one.
func (s *stream) send(event, data string) error {
	if event == "state" && data == s.last {
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
