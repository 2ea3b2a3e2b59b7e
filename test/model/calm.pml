/* Once faults stop: from any state of the model, what is on its way is gone (but releases, on which clients insist), those
 * who live act at once, and everybody who waits must enter; then nothing must be left. Included by fair-line.pml.
 *
 * `dead`: the clients (bits) that never act again; `deaf`: those of them of which the server knows that nobody listens.
 */

#if FIXED != 0 && EXTENDED_LEASE > PLACE_LEASE
#define LONGEST_LEASE EXTENDED_LEASE
#else
#define LONGEST_LEASE PLACE_LEASE
#endif
/* A lease of somebody who died, a tick for everybody who enters, one for the renewal that finds out. */
#define PATIENCE (LONGEST_LEASE + CLIENTS + 1)

#define IS_DEAD(c, dead) (((dead) >> (c)) & 1)

/* How a hold goes on: it began in this tick; it may be released. */
#define BEGAN 1
#define MAY_END 2

inline calmJoin(c) {
  forget(c); joinNonce[c] = 0; lastNonce[c] = NONCES; reply[COMMAND(OWNER(c), ALL_NONCES)] = 0;
  sending(c, JOIN);
  calmOwner = OWNER(c);
  join(calmOwner, ALL_NONCES, 1);
  told = reply[COMMAND(calmOwner, ALL_NONCES)]; reply[COMMAND(calmOwner, ALL_NONCES)] = 0;
  if
  :: told == HELD -> hasTicket[c] = 1; isRenewed[c] = 1; joinNonce[c] = 0; phase[c] = SLEEPING
  :: else -> hold(c, ASKED_COUNTED(c)); if :: told == UNCONFIRMED -> confirm(calmOwner) :: else fi
  fi;
  told = 0
}

inline calmRenewal(c) {
  lastNonce[c] = NONCES; reply[COMMAND(OWNER(c), ALL_NONCES)] = 0;
  sending(c, RENEW);
  calmOwner = OWNER(c);
  renewPlaces(calmOwner, ALL_NONCES, 1);
  told = reply[COMMAND(calmOwner, ALL_NONCES)]; reply[COMMAND(calmOwner, ALL_NONCES)] = 0;
  if
  :: told == IN_LINE -> confirmed(c, ALL_NONCES)
  :: told == YOURS -> grantNonce[c] = ALL_NONCES; grantAge[c] = 0; phase[c] = WOKEN
  :: else -> gone(c, ALL_NONCES)
  fi;
  told = 0
}

/* One step of a client that lives, if there is one to take. */
inline calmStep(c, deaf) {
  if
  :: phase[c] == HOLDING && rests[c] == 0 -> rests[c] = BEGAN
  :: phase[c] == HOLDING && rests[c] == MAY_END ->
     calmOwner = OWNER(c); endWait(c); phase[c] = FINISHED; reliesFor[c] = 0; handOver(calmOwner, deaf)
  :: phase[c] == IDLE -> phase[c] = FINISHED
  :: phase[c] == JOINING -> calmJoin(c)
  :: phase[c] == WOKEN && grantNonce[c] != 0 && IS_ENOUGH(c) ->
     calmOwner = OWNER(c); hold(c, 1); if :: IS_FIXED(c) -> confirm(calmOwner) :: else fi
  :: phase[c] == WOKEN && !(grantNonce[c] != 0 && IS_ENOUGH(c)) -> calmJoin(c)
  :: phase[c] == SLEEPING ->
     told = 1;
     do
     :: told <= ALL_NONCES && !(((grants[OWNER(c)] >> told) & 1) && IS_TAKEN(c, told)) -> told++
     :: else -> break
     od;
     if
     :: told <= ALL_NONCES -> granted(c, told)
     :: told > ALL_NONCES && !hasRenewed[c] -> hasRenewed[c] = 1; calmRenewal(c)
#ifndef MUTANT_NOBODY_LOOKS
     :: told > ALL_NONCES && hasRenewed[c] && holder == NOBODY -> handOver(NOBODY, deaf)
#endif
     :: else
     fi;
     told = 0
  :: else
  fi
}

#define USES(c) (phase[c] == HOLDING || IS_WAITING(c))
#if CLIENTS == 2
#define IS_IN_USE (USES(0) || USES(1))
#else
#define IS_IN_USE (USES(0) || USES(1) || USES(2))
#endif

inline calm(dead, deaf) {
  who = 0;
  do
  :: who < OWNERS ->
     grants[who] = 0; renewSent[who] = 0; confirmSent[who] = 0; extendSent[who] = 0;
     if :: leaveSent[who] && !IS_DEAD(CLIENT(who), dead) -> handOver(who, deaf) :: else fi;
     who++
  :: else -> break
  od;
  who = 0;
  do
  :: who < CLIENTS -> rests[who] = MAY_END; hasRenewed[who] = 0; who++
  :: else -> break
  od;
  ticks = 0;
  do
  :: ticks > PATIENCE -> break
  :: else ->
     pass = 0;
     do
     :: pass < 4 * CLIENTS ->
        who = 0;
        do
        :: who < CLIENTS ->
           if
           :: !IS_DEAD(who, dead) ->
              if :: phase[who] != HOLDING && rests[who] == MAY_END && pass > 0 -> rests[who] = 0 :: else fi;
              calmStep(who, deaf)
           :: else
           fi;
           who++
        :: else -> break
        od;
        pass++
     :: else -> break
     od;
     who = 0;
     do
     :: who < CLIENTS ->
        if :: rests[who] == BEGAN -> rests[who] = MAY_END :: else fi;
        hasRenewed[who] = 0;
        everybodyEnters = ticks < PATIENCE || IS_DEAD(who, dead) || !IS_WAITING(who);
        assert(everybodyEnters);
        who++
     :: else -> break
     od;
     /* At once, where nobody died. */
     nothingIsLeft = dead != 0 || IS_IN_USE || (holder == NOBODY && !IS_LINE);
     assert(nothingIsLeft);
     tick(); ticks++
  od;
  ticks = 0;
  do
  :: ticks <= LONGEST_LEASE ->
     who = 0;
     do
     :: who < CLIENTS ->
        if
        :: !IS_DEAD(who, dead) && phase[who] == HOLDING ->
           calmOwner = OWNER(who); phase[who] = FINISHED; handOver(calmOwner, deaf)
        :: else
        fi;
        who++
     :: else -> break
     od;
     tick(); ticks++
  :: else -> break
  od;
  nothingIsLeft = holder == NOBODY && lineLeft == 0;
  assert(nothingIsLeft);
  endAll()
}

/* Nothing of interest follows: one state for all. */
inline endAll() {
  who = 0;
  do
  :: who < CLIENTS ->
     isSecond[who] = 0; phase[who] = FINISHED; lastNonce[who] = 0; joinNonce[who] = 0; grantNonce[who] = 0; grantAge[who] = 0;
     reliesFor[who] = 0; hasTicket[who] = 0; isRenewed[who] = 0; keeping[who] = 0; keepingAge[who] = 0;
#if FIXED != 0
     extending[who] = 0; extendingAge[who] = 0;
#endif
     rests[who] = 0; hasRenewed[who] = 0;
     who++
  :: else -> break
  od;
  who = 0;
  do
  :: who < COMMANDS -> command[who] = 0; age[who] = 0; reply[who] = 0; isKnown[who] = 0; withTicket[who] = 0; who++
  :: else -> break
  od;
  who = 0;
  do
  :: who < OWNERS ->
     grants[who] = 0; leaveSent[who] = 0; ticket[who] = 0; inLine[who] = 0; placeNonce[who] = 0; placeLeft[who] = 0;
     isForced[who] = 0; who++
  :: else -> break
  od;
  leaseLeft = 0; holdCount = 0; who = 0; pass = 0; ticks = 0; calmOwner = 0; everybodyEnters = 0; nothingIsLeft = 0
}

/* Who never sent anything may as well be dead. */
#define CALM_STEP(dead, deaf) \
  :: d_step { ((dead) == 0 || phase[(dead) >> 1] != IDLE) -> \
       printf("the faults stop (dead: %d, known to be deaf: %d)\n", dead, deaf); calm(dead, deaf) }
#define CALM_STEPS CALM_STEP(0, 0) CALM_STEP(1, 0) CALM_STEP(1, 1) CALM_STEP(2, 0) CALM_STEP(2, 2)
