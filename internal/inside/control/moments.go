package control

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// moments are the instants of the changes that were made.
type moments struct {
	sent atomic.Int64 // when the last file was put in its place, ns since 1970

	mu  sync.Mutex
	all []mesh.ControlMoment
}

// sending is called before a file is put in its place.
func (m *moments) sending() { m.sent.Store(time.Now().UnixNano()) }

// timed adds the instants of a change to the list, when it was made.
func (m *moments) timed(received time.Time, write func() error) func() error {
	return func() error {
		err := write()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, mesh.ControlMoment{ReceivedNS: received.UnixNano(), SentNS: m.sent.Load()})
		return err
	}
}

func (m *moments) list(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	httpserver.Answer(w, http.StatusOK, m.all)
}
