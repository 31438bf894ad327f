package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// AppStats are the counts of an application since its start, as its REST interface returns them.
type AppStats struct {
	Requests int64  `json:"requests"`
	Messages int64  `json:"messages"` // over WebSocket, whose requests are connections
	Failed   int64  `json:"failed"`   // answered with an error
	Partial  int64  `json:"partial"`  // ended before all of their calls
	ETag     string `json:"etag"`     // of its configuration
	// Callees are its requests to other services, by their names.
	Callees map[string]struct {
		Sent    int64 `json:"sent"`
		Failed  int64 `json:"failed"`
		Retries int64 `json:"retries"`
	} `json:"callees"`
}

// parseStats reads the counts of an application, which are not negative.
func parseStats(text []byte) (stats AppStats, err error) {
	if err := json.Unmarshal(text, &stats); err != nil {
		return AppStats{}, err
	}
	counts := []int64{stats.Requests, stats.Messages, stats.Failed, stats.Partial}
	for _, c := range stats.Callees {
		counts = append(counts, c.Sent, c.Failed, c.Retries)
	}
	if least := slices.Min(counts); least < 0 {
		return AppStats{}, fmt.Errorf("a count is %d", least)
	}
	return stats, nil
}

// ReadEach makes readings of counters, some at once, and returns them in order. The error is for the end of ctx.
func ReadEach[T any](ctx context.Context, atOnce int, reads []func(context.Context) []T) ([]T, error) {
	all := make([][]T, len(reads))
	var reading errgroup.Group
	reading.SetLimit(atOnce)
	for i, read := range reads {
		reading.Go(routine.Guarded(func() error { all[i] = read(ctx); return nil }))
	}
	_ = reading.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the counters of requests: %w", context.Cause(ctx))
	}
	return slices.Concat(all...), nil
}

// Counts reads the counts of one instance of a service. from has its task. They are unknown if from is, or if the stats
// cannot be read.
func (a ServiceAPI) Counts(ctx context.Context, from balance.Count, of app.Service, protocol string) []balance.Count {
	var s AppStats
	if from.Unknown == "" {
		var err error
		if s, err = a.Stats(ctx); err != nil {
			from.Unknown = err.Error()
		}
	}
	return s.counts(from, of, protocol)
}

func (s AppStats) counts(from balance.Count, of app.Service, protocol string) []balance.Count {
	from.Config = s.ETag
	count := func(place balance.Place, tally balance.Tally) balance.Count {
		c := from
		c.Place = place
		if c.Unknown == "" {
			c.Tally = tally
		}
		return c
	}
	all := []balance.Count{count(balance.Place{Service: of.Name, Point: balance.Served, Unit: UnitOf(protocol)},
		balance.Tally{Count: s.Requests, Failed: s.Failed, Partial: s.Partial})}
	if protocol == app.WebSocket {
		all = append(all, count(balance.Place{Service: of.Name, Point: balance.Served, Unit: balance.Requests}, balance.Tally{Count: s.Messages, Failed: s.Failed, Partial: s.Partial}))
	}
	done := map[string]bool{}
	for _, call := range of.Calls {
		if call.Service == "" || done[call.Service] {
			continue
		}
		done[call.Service] = true
		n := s.Callees[call.Service]
		all = append(all, count(balance.Place{Service: of.Name, Point: balance.Sent, To: call.Service, Unit: balance.Requests},
			balance.Tally{Count: n.Sent, Failed: n.Failed, Retries: n.Retries}))
	}
	return all
}

// UnitOf is the unit in which a service counts its requests.
func UnitOf(protocol string) balance.Unit {
	if protocol == app.TCP || protocol == app.WebSocket {
		return balance.Connections
	}
	return balance.Requests
}
