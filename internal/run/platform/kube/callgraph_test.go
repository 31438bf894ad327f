package kube

import "testing"

// A destination is a Service by its name alone, or with the namespace within an address.
func TestAddressed(t *testing.T) {
	for value, want := range map[string]bool{
		"api": true, "outbound|80||api.shop.svc.cluster.local": true, "api.shop": true, "http://api.shop:80/": true,
		"my-api": false, "outbound|80||my-api.shop.svc.cluster.local": false, "api.shopping": false, "outbound|80||api.other.svc.cluster.local": false, "api.svc": false,
	} {
		if got := addressed(value, "api", "shop"); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}
