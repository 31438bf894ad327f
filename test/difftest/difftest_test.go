package difftest

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	type count int64
	if d := Of("a", count(3), 3, "b", 2.5, 2.5, "c", time.Millisecond, 1e6, "d", nil, nil); d != "" {
		t.Errorf("equal values differ: %s", d)
	}
	if d, want := Of("a", count(3), 4, "b", "x", "x", "c", time.Second, 1), "a is 3, want 4; c is 1s, want 1ns"; d != want {
		t.Errorf("%q, want %q", d, want)
	}
}

func TestWrong(t *testing.T) {
	if d, want := Wrong("1 > 2", false, "a", true, "b", true), "a; b"; d != want {
		t.Errorf("%q, want %q", d, want)
	}
}
