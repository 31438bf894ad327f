package kube

import "testing"

// A pod takes the slot of one that a fault ended, and no other.
func TestSlots(t *testing.T) {
	var s slots
	for i, c := range []struct {
		pod                string
		vacate             string // the pod that ends first, "" for none
		scaledDown         bool
		number, generation int
	}{
		{"a", "", false, 0, 1}, {"b", "", false, 1, 1}, {"a", "", false, 0, 1},
		{"c", "b", false, 1, 2}, {"b", "", false, 1, 1}, {"d", "c", false, 1, 3},
		{"e", "a", true, 2, 1}, // the slot of a was scaled down
	} {
		if c.vacate != "" {
			s.vacate("s", c.vacate, c.scaledDown)
		}
		if number, generation := s.assign("s", c.pod); number != c.number || generation != c.generation {
			t.Errorf("%d: pod %s has number %d in generation %d, want %d and %d", i, c.pod, number, generation, c.number, c.generation)
		}
	}
	if pod := s.occupant("s", 0); pod != "" {
		t.Errorf("pod %s is in a vacant slot", pod)
	}
	if !s.reopen("s", 0) || s.reopen("s", 1) {
		t.Error("slot 0 was scaled down, slot 1 was not")
	}
	if number, generation := s.assign("s", "f"); number != 0 || generation != 2 {
		t.Errorf("number %d, generation %d", number, generation)
	}
	if pod := s.occupant("s", 1); pod != "d" || s.count("s") != 3 {
		t.Errorf("slot 1 has pod %q, of %d slots", pod, s.count("s"))
	}
	if service, number, ok := s.find("s-2"); service != "s" || number != 2 || !ok {
		t.Errorf("s-2 is slot %d of %q, %v", number, service, ok)
	}
	if _, _, ok := s.find("s-3"); ok {
		t.Error("s-3 was found")
	}
}
