package kube

import (
	"fmt"
	"slices"
	"sync"
)

// slots numbers the pods of each service. A pod that replaces one ended by a fault gets the number of that pod, so
// that "echo-1" names the same replica throughout a trial. The zero value is empty.
type slots struct {
	mu        sync.Mutex
	byService map[string][]*slot
}

// slot is one number of a service.
type slot struct {
	pods []string // names, one for each generation, with the current or last one at the end
	// vacant: a fault ended the last pod, and the next new pod of the service gets the slot.
	vacant bool
	// scaledDown: a fault scaled the service down, and no pod gets the slot before the service is scaled up.
	scaledDown bool
}

// vacate frees the slot of a pod that a fault ends.
func (s *slots) vacate(service, pod string, scaledDown bool) {
	number, _ := s.assign(service, pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	slot.vacant, slot.scaledDown = true, scaledDown
}

// assign returns the number of a pod of a service and its generation, from 1. An unknown pod gets a vacant slot or a
// new one.
func (s *slots) assign(service, pod string) (number, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, slot := range s.byService[service] {
		if j := slices.Index(slot.pods, pod); j >= 0 {
			return i, j + 1
		}
	}
	for i, slot := range s.byService[service] {
		if slot.vacant && !slot.scaledDown {
			slot.pods, slot.vacant = append(slot.pods, pod), false
			return i, len(slot.pods)
		}
	}
	if s.byService == nil {
		s.byService = map[string][]*slot{}
	}
	s.byService[service] = append(s.byService[service], &slot{pods: []string{pod}})
	return len(s.byService[service]) - 1, 1
}

// reopen lets a pod take a slot that was scaled down. It reports whether the slot was.
func (s *slots) reopen(service string, number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	was := slot.scaledDown
	slot.scaledDown = false
	return was
}

// occupant is the name of the pod in a slot, or "" if the slot is vacant.
func (s *slots) occupant(service string, number int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	if slot.vacant {
		return ""
	}
	return slot.pods[len(slot.pods)-1]
}

func (s *slots) count(service string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byService[service])
}

// find finds a slot by its name, e.g. "echo-1".
func (s *slots) find(name string) (service string, number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for service, all := range s.byService {
		for i := range all {
			if slotName(service, i) == name {
				return service, i, true
			}
		}
	}
	return "", 0, false
}

// slotName names a slot in results and faults.
func slotName(service string, number int) string { return fmt.Sprintf("%s-%d", service, number) }
