package meter

// Kills counts the OOM kills of a container. The API server reports the last one only, so of
// several between two readings one is counted. The zero value is a container not seen before.
type Kills struct {
	known          bool
	restarts, seen int
}

// After returns the count after a reading of the container's state.
func (k Kills) After(restarts int, oomKilled bool) Kills {
	if oomKilled && (!k.known || restarts > k.restarts || k.seen == 0) {
		k.seen++
	}
	k.known, k.restarts = true, restarts
	return k
}

// Seen is the number of OOM kills.
func (k Kills) Seen() int { return k.seen }
