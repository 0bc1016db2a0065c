package out

// Column is one column of a listing, or one line of a single item.
type Column[T any] struct {
	Name string
	Cell func(T) string // the full value: wide, CSV
	Form Form           // of the cell in a table
	Show Show           // where the column is shown
}

// Form is the way in which a table shortens the cells of a column. Wide tables and CSV show them whole.
type Form int

// Forms. List draws cells of the form Prose and Remedy without shortening them.
const (
	Text   Form = iota // its end is cut if the table is too wide
	Scope              // its middle is cut, so that provider and action stay
	ID                 // an id becomes its shortest prefix that is unique in the listing
	When               // a time of Time becomes relative: in 12m, 3h ago
	Prose              // the last column: it is wrapped
	Remedy             // no column: it is wrapped on lines below the row, after ->
)

// Show is the set of formats that show a column.
type Show int

// Places of columns.
const (
	Always Show = iota
	Full        // in wide tables, CSV and single items
	Brief       // in tables
)
