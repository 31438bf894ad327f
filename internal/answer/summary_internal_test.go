package answer

import "testing"

// The cause of a failed deployment is on the second line of its error.
func TestHeadOf(t *testing.T) {
	for in, want := range map[string]string{
		"deploy none: wait for deployment shop/cart: 0 of 1 replicas ready after 30s\n  pod cart-1: ErrImageNeverPull\n  pod cart-2: the same": "deploy none: wait for deployment shop/cart: 0 of 1 replicas ready after 30s: pod cart-1: ErrImageNeverPull",
		"deploy: envoy exited: exit status 1\nsee its log": "deploy: envoy exited: exit status 1",
		"one line": "one line",
		"deploy: 0 of 1 ready\n  pod cart-1: exited with code 255\n    | starting\n    | too many open files\n  pod cart-2: another": "deploy: 0 of 1 ready: pod cart-1: exited with code 255; its log ends: too many open files",
	} {
		if got := headOf(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
