package chart

// height of every chart, in SVG units.
const height = 100.0

// Series is one counted quantity.
type Series struct {
	Name  string
	Class string // CSS class that sets its colour
	Of    []int  // one number a column, negative ones count as 0
}

// Sum returns the sum of all columns.
func (s Series) Sum() int {
	n := 0
	for _, v := range s.Of {
		n += max(v, 0)
	}
	return n
}

// Rect is a part of a column. Y grows downwards.
type Rect struct {
	Y, H  float64
	Class string
}

// Column is one column of a Stack.
type Column struct {
	Sum   int
	Rects []Rect // from the lower edge up
}

// Stack is a chart of stacked columns, each Height units high.
type Stack struct {
	Height  float64
	Top     int   // the number at the upper edge: a round one, at least 1
	Axis    []int // numbers of the grid lines, evenly spaced from Top down to 0
	Columns []Column
	Series  []Series
}

// NewStack stacks the series, the first one lowest. Missing values at the end
// of a shorter series count as 0.
func NewStack(series ...Series) Stack {
	c := Stack{Height: height, Series: series}
	for _, s := range series {
		for i, v := range s.Of {
			if i == len(c.Columns) {
				c.Columns = append(c.Columns, Column{})
			}
			c.Columns[i].Sum += max(v, 0)
		}
	}
	for _, col := range c.Columns {
		c.Top = max(c.Top, col.Sum)
	}
	c.Top = round(c.Top)
	if c.Axis = []int{c.Top, 0}; c.Top%2 == 0 {
		c.Axis = []int{c.Top, c.Top / 2, 0}
	}
	for i := range c.Columns {
		y := height
		for _, s := range series {
			if i >= len(s.Of) || s.Of[i] <= 0 {
				continue
			}
			h := height * float64(s.Of[i]) / float64(c.Top)
			y -= h
			c.Columns[i].Rects = append(c.Columns[i].Rects, Rect{Y: max(y, 0), H: h, Class: s.Class})
		}
	}
	return c
}

// Line returns the Y of the grid line of Axis[n].
func (c Stack) Line(n int) float64 { return c.Height * float64(n) / float64(len(c.Axis)-1) }

// round returns the smallest of 1, 2, 4, 5, 10, 20, 40, 50, 100 ... that is at least n.
func round(n int) int {
	for p := 1; ; p *= 10 {
		for _, m := range [...]int{1, 2, 4, 5} {
			if m*p >= n || p == 1e18 && m == 5 {
				return m * p
			}
		}
	}
}
