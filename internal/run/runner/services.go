package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Services lists and changes services of running trials by hand, which invalidates these trials: the others of their treatments have
// another configuration. The zero value is ready. Its methods may be called from several goroutines.
type Services struct {
	mu      sync.Mutex
	running []*changeable
}

// changeable is a running trial, and its changes so far.
type changeable struct {
	trial *trial
	made  []result.ByHand
}

// Replica is one replica of a service of a running trial.
type Replica struct {
	Trial  string `json:"trial"`
	Name   string `json:"name"` // such as front-0
	Config string `json:"config,omitempty"`
	Why    string `json:"why,omitempty"` // why it cannot be changed
}

// Replicas returns the replicas of the services in all running trials, with their current configuration.
func (s *Services) Replicas(ctx context.Context) (all []Replica) {
	for _, t := range s.trials("") {
		for _, v := range replicasOf(t, "") {
			one := Replica{Trial: t.setup.of.ID, Name: v.Pod}
			if config, err := t.deployment.Configurer.Configuration(ctx, v.ID); err != nil {
				one.Why = err.Error()
			} else {
				one.Config = string(config)
			}
			all = append(all, one)
		}
	}
	return all
}

// Change applies a JSON merge patch (RFC 7396) to a replica, or to all replicas of a service. Without a trial it changes
// each trial that runs now.
func (s *Services) Change(ctx context.Context, trial, target, patch string) (made []result.ByHand, err error) {
	if !json.Valid([]byte(patch)) {
		return nil, hint.New(`write a JSON merge patch, such as {"delay": "250ms"}`, "the patch is not JSON")
	}
	trials := s.trials(trial)
	if len(trials) == 0 {
		return nil, hint.New("changes are possible from the end of `deploy` to the end of `drain`", "no trial %sruns now", spaced(trial))
	}
	for _, t := range trials {
		found := replicasOf(t, target)
		if len(found) == 0 {
			return made, hint.New("its replicas: "+strings.Join(names(replicasOf(t, "")), ", "), "trial %s has no service or replica %q", t.setup.of.ID, target)
		}
		for _, v := range found {
			if _, err := t.deployment.Configurer.Configure(ctx, v.ID, []byte(patch)); err != nil {
				return made, fmt.Errorf("change %s of trial %s: %w", v.Pod, t.setup.of.ID, err)
			}
			one := result.ByHand{Target: v.Pod, At: t.setup.clock.now(), Patch: patch}
			if !s.keep(t, one) {
				return made, fmt.Errorf("change %s of trial %s: %w", v.Pod, t.setup.of.ID, errEnded)
			}
			t.journal.emit(result.Event{Time: one.At, Kind: result.KindByHand, Message: fmt.Sprintf("%s changed by hand: %s", v.Pod, patch)})
			made = append(made, one)
		}
	}
	return made, nil
}

var errEnded = errors.New("it ended meanwhile")

func spaced(word string) string {
	if word == "" {
		return ""
	}
	return word + " "
}

// trials are the running trials whose services can be changed, or one of them.
func (s *Services) trials(id string) (all []*trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		if id == "" || one.trial.setup.of.ID == id {
			all = append(all, one.trial)
		}
	}
	return all
}

// replicasOf are the replicas that a name selects: of a service, or one. An empty name selects all.
func replicasOf(t *trial, name string) []platform.Victim {
	return slices.DeleteFunc(t.deployment.TaskFaults.Victims(), func(v platform.Victim) bool {
		return v.Plane != metric.App || name != "" && v.Service != name && v.Pod != name
	})
}

func names(all []platform.Victim) []string {
	return printable.Texts(all, func(v platform.Victim) string { return v.Pod })
}

// keep records a change, unless the trial ended meanwhile.
func (s *Services) keep(t *trial, made result.ByHand) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(t)
	if i >= 0 {
		s.running[i].made = append(s.running[i].made, made)
	}
	return i >= 0
}

func (s *Services) index(t *trial) int {
	return slices.IndexFunc(s.running, func(one *changeable) bool { return one.trial == t })
}

// begin makes the services of a trial changeable. s may be nil.
func (s *Services) begin(t *trial) {
	if s == nil || t.deployment.Configurer == nil || t.deployment.TaskFaults == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, &changeable{trial: t})
}

// end returns the changes of a trial, which can have no more. It may be called again.
func (s *Services) end(t *trial) (made []result.ByHand) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(t); i >= 0 {
		made = s.running[i].made
		s.running = slices.Delete(s.running, i, i+1)
	}
	return made
}

// changedByHand describes the changes by hand, by `tare services` or through the REST interface of a service. Faults and
// changes of the experiment change configurations too.
func changedByHand(s seen) string {
	if all := s.record.ByHand; len(all) > 0 {
		return fmt.Sprintf("%s by hand: %s to %.200s first", printable.Counted(len(all), "change"), all[0].Target, all[0].Patch)
	}
	if s.record.Balance == nil || len(s.faults) > 0 || len(s.record.Changes) > 0 {
		return ""
	}
	for _, f := range s.record.Balance.Flows {
		if f.Reconfigured && f.Unknown == "" {
			return fmt.Sprintf("the configuration of service %s was changed during the load, through its REST interface", f.Service)
		}
	}
	return ""
}
