package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
)

// openWithin is the time within which a closed loop of a number of requests needs a usable connection. Without one its
// requests fail one by one, each after a pause of up to a second.
const openWithin = 5 * time.Second

// openCheck is the time between two checks for a usable connection.
const openCheck = 100 * time.Millisecond

// ErrNoConnection is the error of a load that ended because no connection could be opened. Its report is whole.
var ErrNoConnection = errors.New("no connection could be opened")

// awaitConnection ends a load without a usable connection after openWithin. A server that does not respond has the
// profile's time-out instead: until then no attempt has failed at it.
func (e *engine) awaitConnection(ctx context.Context, giveUp context.CancelCauseFunc) {
	began := time.Now()
	pause := time.NewTicker(openCheck)
	defer pause.Stop()
	for !e.HasOpened() {
		if time.Since(began) >= openWithin && e.NoneOpens() {
			giveUp(ErrNoConnection)
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// noConnection is the error of a load that has ended without a usable connection.
func (e *engine) noConnection(r *load.Report) error {
	origins, _ := e.Profile.Origins()
	return hint.New("start the server first, and check host, port and protocol", "%w to %s: %s",
		ErrNoConnection, strings.Join(origins, ", "), record.Tally(r.ConnectErrors, r.Reasons))
}
