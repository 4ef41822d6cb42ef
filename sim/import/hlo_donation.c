/* Donated arguments that save nothing, or less than they could: said where the program is read, because no figure shows it. */
#include "sim/import/hlo.h"

#include "sim/base/compare.h"
#include "sim/base/units.h"

enum { LEAST = 1 << 20, LEAST_PART = 16, MOST_NAMED = 8 }; /* Bytes, and part of all arguments, from which it is worth a remark; arguments named. */

/* The entry's parameter @number. */
static EchId parameter_of(GHashTable *parameters, int64_t number)
{
    size_t found = GPOINTER_TO_SIZE(g_hash_table_lookup(parameters, &number));
    return found > 0 ? (EchId)(found - 1) : ECH_NONE;
}

static EchBytes bytes_at(const EchProgram *p, EchId id, uint32_t position)
{
    const EchShape *shape = &p->shapes[ech_program_subshape(p, p->instructions[id].shape, position)];
    return shape->is_tuple ? 0 : shape->bytes;
}

/* What the program's source calls it, where it says so. */
static const char *called(const EchInstruction *i)
{
    return i->op_name && *i->op_name && (i->opcode != ECH_HLO_PARAMETER || !strchr(i->op_name, '(')) ? i->op_name : i->name;
}

/* How long the name is of the function's argument that a parameter belongs to ("m" of "m.states[0][1]"); 0: it tells none. What a loop takes goes by an
 * operation's path ("jit(step)/jvp()/while") where the loop was compiled first. */
static size_t letters_of_argument(const EchInstruction *parameter)
{
    size_t n = parameter->op_name ? strspn(parameter->op_name, ECH_ARGUMENT_LETTERS) : 0;
    return n > 0 && strchr(".[", parameter->op_name[n]) ? n : 0;
}

void ech_hlo_remark_donors(const EchProgram *program, const EchHloDonor *donors, size_t n, EchDiag *diag)
{
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(program);
    EchBytes sum = 0, largest = 0;
    EchId which = ECH_NONE, what = ECH_NONE;
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        EchId parameter = parameter_of(parameters, donors[i].parameter);
        EchBytes bytes = parameter == ECH_NONE || donors[i].position >= program->shapes[program->instructions[parameter].shape].n_positions
                             ? 0
                             : bytes_at(program, parameter, donors[i].position);
        if (bytes == 0)
            continue;
        count++;
        sum = ech_bytes_add(sum, bytes);
        if (bytes > largest) {
            largest = bytes;
            which = parameter;
            what = ech_program_subshape(program, program->instructions[parameter].shape, donors[i].position);
        }
    }
    if (sum < LEAST)
        return;
    g_autofree char *all = ech_format_bytes(sum), *one = ech_format_bytes(largest);
    g_autofree char *shape = ech_program_shape_text(program, what);
    ech_diag_remark(diag, "%u donated argument%s (%s) saved nothing, because no output has the shape, type and memory of %s%s %s (%s)", count,
                    count == 1 ? "" : "s", all, count == 1 ? "" : "one of them: the largest is ", called(&program->instructions[which]), shape, one);
}

/* An array that may be given, or that something is wanted for. */
typedef struct {
    int64_t parameter;
    uint32_t position;
    int32_t space;
    EchBytes bytes;
} Offer;

static int larger_first(const void *a, const void *b, void *data)
{
    (void)data;
    const Offer *x = a, *y = b;
    return x->space != y->space ? (x->space > y->space) - (x->space < y->space) : (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void offer(GArray *offers, const EchProgram *p, EchId shape, int64_t parameter, uint32_t position)
{
    EchId at = position < p->shapes[shape].n_positions ? ech_program_subshape(p, shape, position) : ECH_NONE;
    const EchLayout *layout = at == ECH_NONE ? NULL : ech_program_layout(p, at);
    const Offer one = {parameter, position, layout ? layout->space : 0, layout ? p->shapes[at].bytes : 0};
    if (layout)
        g_array_append_val(offers, one);
}

void ech_hlo_pair_donors(EchProgram *program, const EchHloDonor *donors, size_t n)
{
    const EchShape *entry = program->entry_layout == ECH_NONE ? NULL : &program->shapes[program->entry_layout];
    EchId result = entry ? program->elements[entry->first_element + 1] : program->instructions[program->computations[program->entry].root].shape;
    const EchShape *declared = entry ? &program->shapes[program->elements[entry->first_element]] : NULL;
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(program);
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(Offer)), wanted = g_array_new(FALSE, FALSE, sizeof(Offer));
    if (program->shapes[result].n_positions != program->shapes[program->instructions[program->computations[program->entry].root].shape].n_positions)
        return;
    g_autofree bool *taken = g_new0(bool, program->shapes[result].n_positions + 1);
    for (size_t k = 0; k < program->n_donations; k++) {
        if (program->donations[k].output_position < program->shapes[result].n_positions)
            taken[program->donations[k].output_position] = true;
    }
    for (size_t k = 0; k < n; k++) {
        EchId parameter = parameter_of(parameters, donors[k].parameter);
        bool told = declared && donors[k].parameter >= 0 && donors[k].parameter < declared->n_elements;
        if (parameter != ECH_NONE)
            offer(given, program, told ? program->elements[declared->first_element + donors[k].parameter] : program->instructions[parameter].shape,
                  donors[k].parameter, donors[k].position);
    }
    for (uint32_t q = 0; q < program->shapes[result].n_positions; q++) {
        if (!taken[q])
            offer(wanted, program, result, -1, q);
    }
    g_array_sort_with_data(given, larger_first, NULL);
    g_array_sort_with_data(wanted, larger_first, NULL);
    program->donations = g_renew(EchDonation, program->donations, program->n_donations + MIN(given->len, wanted->len) + 1);
    for (guint a = 0, b = 0; a < given->len && b < wanted->len;) {
        const Offer *from = &g_array_index(given, Offer, a), *to = &g_array_index(wanted, Offer, b);
        int order = larger_first(from, to, NULL);
        if (order == 0)
            program->donations[program->n_donations++] = (EchDonation){to->position, from->parameter, from->position};
        a += order <= 0;
        b += order >= 0;
    }
}

/* The array at an output's position, as the entry's root names it. */
static EchId output_of(const EchProgram *p, uint32_t position)
{
    EchId root = p->computations[p->entry].root;
    const EchInstruction *i = &p->instructions[root];
    if (i->opcode != ECH_HLO_TUPLE)
        return position == 0 ? root : ECH_NONE;
    uint32_t low = 0, high = MIN(i->n_operands, p->shapes[i->shape].n_elements); /* the first member that begins there or behind it */
    ECH_SEARCH(low, high, middle, ech_program_member_position(p, i->shape, middle) < position);
    bool begins = low < MIN(i->n_operands, p->shapes[i->shape].n_elements) && ech_program_member_position(p, i->shape, low) == position;
    return begins ? ech_program_operand(p, i, low) : ECH_NONE;
}

/* The same array but for the order of its dimensions and its tiles. */
static bool laid_out_otherwise(const EchProgram *p, EchId a, EchId b)
{
    const EchShape *x = &p->shapes[a], *y = &p->shapes[b];
    return a != b && !x->is_tuple && !y->is_tuple && x->dtype == y->dtype && x->space == y->space && x->count == y->count;
}

void ech_hlo_remark_copied_back(const EchProgram *program, EchDiag *diag)
{
    g_autoptr(GHashTable) parameters = ech_program_entry_parameters(program);
    EchBytes sum = 0, largest = 0;
    EchId which = ECH_NONE, source = ECH_NONE;
    unsigned count = 0;
    for (size_t i = 0; i < program->n_donations; i++) {
        const EchDonation *donation = &program->donations[i];
        EchId output = output_of(program, donation->output_position), parameter = parameter_of(parameters, donation->parameter);
        if (output == ECH_NONE || parameter == ECH_NONE)
            continue;
        const EchInstruction *copy = &program->instructions[output];
        EchBytes bytes = bytes_at(program, output, 0);
        if (copy->opcode != ECH_HLO_COPY || copy->n_operands == 0 || bytes < LEAST)
            continue;
        /* A result that was made on chip has to be brought to its place in any case. */
        EchId from = ech_program_operand(program, copy, 0);
        if (from == parameter ||
            (program->instructions[from].shape != copy->shape && !laid_out_otherwise(program, program->instructions[from].shape, copy->shape)))
            continue;
        count++;
        sum = ech_bytes_add(sum, bytes);
        if (bytes > largest) {
            largest = bytes;
            which = parameter;
            source = from;
        }
    }
    if (count == 0)
        return;
    const EchInstruction *from = &program->instructions[source];
    bool relaid = from->shape != program->instructions[which].shape;
    bool loop = from->opcode == ECH_HLO_GET_TUPLE_ELEMENT && from->n_operands > 0 &&
                program->instructions[ech_program_operand(program, from, 0)].opcode == ECH_HLO_WHILE;
    g_autofree char *all = ech_format_bytes(sum), *shape = relaid ? ech_program_shape_text(program, from->shape) : NULL;
    ech_diag_remark(
        diag,
        "%u donated argument%s (%s%s%s) %s not updated in place: the output is made elsewhere%s%s and copied over it at the end, which takes the room twice%s",
        count, count == 1 ? "" : "s", called(&program->instructions[which]), count == 1 ? ", " : " and others, ", all, count == 1 ? "is" : "are",
        relaid ? " as " : "", relaid ? shape : "",
        relaid ? " (jax.experimental.layout can give the argument that layout)"
        : loop ? " (a loop updates in place what it carries, not what goes through a scan's xs and ys)"
               : "");
}

static gpointer array_key(int64_t parameter, uint32_t position)
{
    return (gpointer)(uintptr_t)((uint64_t)parameter << 32 | position);
}

void ech_hlo_remark_undonated(const EchProgram *program, EchDiag *diag)
{
    const EchComputation *entry = &program->computations[program->entry];
    EchId result = program->instructions[entry->root].shape;
    g_autoptr(GHashTable) donated = g_hash_table_new(NULL, NULL), left = g_hash_table_new(NULL, NULL); /* left: results by shape, how many */
    g_autofree bool *taken = g_new0(bool, program->shapes[result].n_positions + 1);
    for (size_t i = 0; i < program->n_donations; i++) {
        const EchDonation *donation = &program->donations[i];
        g_hash_table_add(donated, array_key(donation->parameter, donation->parameter_position));
        if (donation->output_position < program->shapes[result].n_positions)
            taken[donation->output_position] = true;
    }
    for (uint32_t q = 0; q < program->shapes[result].n_positions; q++) {
        gpointer shape = GUINT_TO_POINTER(ech_program_subshape(program, result, q) + 1);
        if (!taken[q] && bytes_at(program, entry->root, q) > 0)
            g_hash_table_insert(left, shape, GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(left, shape)) + 1));
    }
    EchBytes sum = 0, all = 0, largest = 0;
    EchId which = ECH_NONE;
    unsigned count = 0;
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free); /* of the function's arguments that hold them */
    for (EchId i = entry->first; i < entry->first + entry->n; i++) {
        const EchInstruction *parameter = &program->instructions[i];
        for (uint32_t q = 0; parameter->opcode == ECH_HLO_PARAMETER && q < program->shapes[parameter->shape].n_positions; q++) {
            gpointer shape = GUINT_TO_POINTER(ech_program_subshape(program, parameter->shape, q) + 1);
            EchBytes bytes = bytes_at(program, i, q);
            unsigned n = GPOINTER_TO_UINT(g_hash_table_lookup(left, shape));
            all = ech_bytes_add(all, bytes);
            if (n == 0 || bytes == 0 || g_hash_table_contains(donated, array_key(parameter->number, q)))
                continue;
            g_hash_table_insert(left, shape, GUINT_TO_POINTER(n - 1));
            count++;
            sum = ech_bytes_add(sum, bytes);
            size_t n_letters = letters_of_argument(parameter);
            bool names_more = which == ECH_NONE || (n_letters > 0) > (letters_of_argument(&program->instructions[which]) > 0);
            if (names_more || (bytes > largest && (n_letters > 0 || names->len == 0))) {
                largest = bytes;
                which = i;
            }
            g_autofree char *name = g_strndup(n_letters > 0 ? parameter->op_name : "", n_letters);
            if (n_letters > 0 && !g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
                g_ptr_array_add(names, g_steal_pointer(&name));
        }
    }
    if (sum < LEAST || sum < all / LEAST_PART)
        return;
    g_autofree char *text = ech_format_bytes(sum);
    g_autoptr(GString) several = g_string_new(NULL);
    for (guint k = 0; names->len > 1 && names->len <= MOST_NAMED && k < names->len; k++)
        g_string_append_printf(several, "%s%s%s", k == 0 ? ECH_REMARK_OF_ARGUMENTS : ", ", (const char *)names->pdata[k], k + 1 == names->len ? ": " : "");
    ech_diag_remark(diag,
                    "%u argument%s (%s%s%s, %s) %s " ECH_REMARK_UNDONATED ", though results have the same shape, type and memory: both are held. "
                    "Where the caller does not use them again, jax.jit's donate_argnames spares that; --pass donate tells what it changes",
                    count, count == 1 ? "" : "s", several->str, called(&program->instructions[which]), count == 1 ? "" : " and others", text,
                    count == 1 ? "is" : "are");
}
