package experiment

// Orders of the trials.
const (
	OrderRandom = "random" // every block has all treatments in random order
	OrderTurns  = "turns"  // within a block the treatments of one mesh stand together, the meshes in random order
	OrderOnce   = "once"   // so they do over all blocks: each mesh comes once a run
)

// orders are the orders there are, the default first.
var orders = []string{OrderRandom, OrderTurns, OrderOnce}

// order checks the order of the trials.
func (v validation) order() {
	if v.e.Order != "" || v.doc.Has("order") {
		v.oneOf("order", "order", v.e.Order, orders)
	}
	if v.e.Order == OrderOnce && v.e.Blocks.Until != nil {
		v.report("order", "write order: turns, or a number of blocks", "no block ends before the last mesh has come, and blocks.until asks after each")
	}
}
