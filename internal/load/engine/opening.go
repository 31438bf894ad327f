package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
)

const (
	// openWithin is the time within which a closed loop of a number of requests needs a usable connection. Without one its
	// requests fail one by one, each after a pause of up to a second.
	openWithin = 5 * time.Second
	// goneWithin is the same for a server that has answered: a restart takes less.
	goneWithin = 30 * time.Second
	// openCheck is the time between two checks for a usable connection.
	openCheck = 100 * time.Millisecond
)

// ErrNoConnection is the error of a load that ended because no connection could be opened. Its report is whole.
var ErrNoConnection = errors.New("no connection could be opened")

// awaitConnections ends a load whose connections all fail: none is opened and none has an answer for openWithin, or
// after the first for goneWithin. A server that does not respond has the profile's timeout instead: until then
// no attempt has failed at it, and a request may wait for its answer.
func (e *engine) awaitConnections(ctx context.Context, giveUp context.CancelCauseFunc) {
	since, within := time.Now(), openWithin
	pause := time.NewTicker(openCheck)
	defer pause.Stop()
	for {
		switch {
		case e.HasOpened() || e.answered.Load():
			e.ForgetOpening()
			e.answered.Store(false)
			since, within = time.Now(), max(goneWithin, e.Profile.Timeout)
		case time.Since(since) >= within && e.NoneOpens():
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

// watched records answers for awaitConnections.
func (e *engine) watched(progress func(load.Progress)) func(load.Progress) {
	return func(p load.Progress) {
		if p.Completed > 0 {
			e.answered.Store(true)
		}
		if progress != nil {
			progress(p)
		}
	}
}

// noConnection is the error of a load that has ended without a usable connection.
func (e *engine) noConnection(r *load.Report) error {
	origins, _ := e.Profile.Origins()
	todo, since := "start the server first, and check host, port and protocol", ""
	if r.Completed > 0 {
		todo, since = "the server has answered before: see its log", fmt.Sprintf(" for %v", max(goneWithin, e.Profile.Timeout))
	}
	return hint.New(todo, "%w to %s%s: %s",
		ErrNoConnection, strings.Join(origins, ", "), since, record.Tally(r.ConnectErrors, r.Reasons))
}
