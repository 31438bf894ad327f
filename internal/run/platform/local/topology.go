package local

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// waves groups sorted services. Each calls only services of earlier groups.
func waves(order []app.Service) [][]app.Service {
	var all [][]app.Service
	height := map[string]int{}
	for _, s := range order {
		h := 0
		for _, c := range callees(s) {
			h = max(h, height[c]+1)
		}
		height[s.Name] = h
		if h == len(all) {
			all = append(all, nil)
		}
		all[h] = append(all[h], s)
	}
	return all
}

// callers lists the callers of a service, the load generator included.
func callers(t app.Topology, name string) []string {
	var names []string
	if t.EntryName() == name {
		names = append(names, loadService)
	}
	for _, s := range t.Services {
		if slices.Contains(callees(s), name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// visits counts the calls of each service for one request at the entry, which is called as first.
func visits(t app.Topology, first called) (map[string]called, error) {
	order, err := calleesFirst(t)
	if err != nil {
		return nil, err
	}
	all := map[string]called{t.EntryName(): first}
	for _, s := range slices.Backward(order) {
		for callee, n := range all[s.Name].calls(t, s) {
			all[callee] = all[callee].plus(n)
		}
	}
	return all, nil
}

// calleesFirst sorts the services, each after its callees.
func calleesFirst(t app.Topology) ([]app.Service, error) {
	var order []app.Service
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string) error
	visit = func(name string) error {
		s, ok := t.Service(name)
		switch {
		case !ok:
			return fmt.Errorf("topology %s has no service %q", t.Name, name)
		case state[name] == 1:
			return fmt.Errorf("topology %s: service %s calls itself in a cycle", t.Name, name)
		case state[name] == 2:
			return nil
		}
		state[name] = 1
		for _, callee := range callees(s) {
			if err := visit(callee); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, s)
		return nil
	}
	for _, s := range t.Services {
		if err := visit(s.Name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// callees lists the callees of s once, in the order of the calls.
func callees(s app.Service) []string {
	var names []string
	for _, c := range s.Calls {
		if c.Service != "" && !slices.Contains(names, c.Service) {
			names = append(names, c.Service)
		}
	}
	return names
}

// calls counts the calls of each callee by a service with these visits.
func (c called) calls(t app.Topology, s app.Service) map[string]called {
	all := map[string]called{}
	for _, call := range s.Calls {
		all[call.Service] = all[call.Service].plus(called{
			times: c.times * int64(1+t.Redirected(call)), atMost: c.atMost || uncertain(call) || failsOften(s), some: c.some || s.IsOwn(),
		})
	}
	return all
}

// failsOften reports whether a service may answer all probes without its calls.
func failsOften(s app.Service) bool {
	return s.RateLimit > 0 || s.Errors != nil && s.Errors.Ratio > 0.5
}

func uncertain(c app.Call) bool { return c.Probability != nil && *c.Probability < 1 }
