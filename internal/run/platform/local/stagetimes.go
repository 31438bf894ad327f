package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// stageTimes implements [platform.StageTimer], for the programs that measure their own requests.
type stageTimes struct {
	layout    *layout
	workspace *workspace
}

// StageTimes implements [platform.StageTimer].
func (s *stageTimes) StageTimes(ctx context.Context) ([]app.StageTime, error) {
	var all []app.StageTime
	for _, p := range s.timed() {
		b, err := p.serviceAPI("").Call(ctx, http.MethodGet, app.StagesPath, nil)
		if err == nil {
			all, err = addStages(all, b)
		}
		if err != nil {
			return nil, fmt.Errorf("read the times of %s: %w", p.name, err)
		}
	}
	return all, nil
}

// keep writes the programs' metrics into the provenance, before they are stopped.
func (s *stageTimes) keep(ctx context.Context) error {
	var failed []error
	for _, p := range s.timed() {
		failed = append(failed, s.keepOf(ctx, p))
	}
	return errors.Join(failed...)
}

// timed lists the pods whose program measures its requests.
func (s *stageTimes) timed() (timed []*pod) {
	for _, pods := range s.layout.pods {
		for _, p := range pods {
			if p.program.Timed && p.api.IsValid() {
				timed = append(timed, p)
			}
		}
	}
	return timed
}

func (s *stageTimes) keepOf(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b, err := p.serviceAPI("").Call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil // it has ended, which the watcher reports
	}
	return os.WriteFile(s.workspace.provenance.Path(p.name+"-metrics.txt"), b, 0o600)
}

func addStages(all []app.StageTime, text []byte) ([]app.StageTime, error) {
	var more []app.StageTime
	if err := json.Unmarshal(text, &more); err != nil {
		return nil, err
	}
	for _, t := range more {
		i := slices.IndexFunc(all, func(o app.StageTime) bool { return o.Route == t.Route && o.Stage == t.Stage })
		if i < 0 {
			all = append(all, t)
			continue
		}
		all[i].Count += t.Count
		all[i].Seconds += t.Seconds
	}
	return all, nil
}
